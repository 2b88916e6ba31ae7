"""The words and sentences of the stories in :mod:`llm_anatomy.training.data.stories`.

A sentence has two kinds of slots. ``[weather]`` is drawn at random: each time, one of the lines of ``RULES["weather"]``
is chosen. ``{hero:their}`` is a fact: the hero is fixed before the story begins and stays the same to its end. The
module ``stories`` documents the forms after the colon. A helper ("the baker") is never followed by a pronoun that could
refer to the helper, and hero and friend are never both "he" or both "she". So each pronoun has one meaning.
"""


def _words(text: str) -> list[str]:
    return text.split()


def _phrases(text: str) -> list[str]:
    return text.split(" | ")


GIRLS = _words(
    "Ada Amy Anna Bella Clara Daisy Ella Emma Flora Grace Hanna Ida Iris Jane Julia Kate Lena Lily Lucy Mara Mia "
    "Nina Nora Olga Polly Rosa Ruth Sara Stella Tess Vera Zoe"
)
BOYS = _words(
    "Adam Alan Ben Carl David Eric Felix Finn Fred George Hugo Ivan Jack Jacob John Leo Luke Mark Max Ned Nick "
    "Oscar Otto Paul Peter Robin Sam Simon Theo Tim Tom Victor"
)
ANIMALS = _words("badger bear beaver cat deer dog fox goat hare hedgehog lamb mole mouse otter owl rabbit squirrel")
TRAITS = _words("brave careful cheerful clever curious friendly gentle kind lively patient polite quiet shy")
HELPERS = _phrases(
    "the baker | the blacksmith | the captain | the carpenter | the cook | the doctor | the farmer | the ferryman | "
    "the gardener | the gatekeeper | the librarian | the miller | the old crow | the old heron | the painter | the "
    "potter | the shepherd | the tailor | the teacher | the watchmaker"
)
CREATURES = _words("beetle bird calf duckling foal frog kitten piglet puppy sparrow swan toad tortoise")

COLOURS = _words("black blue brown golden green grey orange pink purple red silver striped white yellow")
THINGS = _words(
    "bag ball bell book box bucket cap cup doll drum flute hat horn key kite lamp map mirror mug pencil puppet ring "
    "spoon top whistle"
)
PAIRS = _words("boots gloves marbles mittens ribbons sandals shoes skates slippers socks")
COATS = _words("blanket cape cloak coat jacket jumper scarf shawl umbrella")
ERRANDS = _words("basket bottle cake jar letter loaf newspaper parcel photograph picture pot ticket")
TOOLS = _words("basket broom hook ladder net pole rake rope shovel stick")

# singular, plural
FOODS = [
    ("apple", "apples"), ("apricot", "apricots"), ("bean", "beans"), ("berry", "berries"), ("biscuit", "biscuits"),
    ("carrot", "carrots"), ("cherry", "cherries"), ("egg", "eggs"), ("fig", "figs"), ("muffin", "muffins"),
    ("nut", "nuts"), ("onion", "onions"), ("orange", "oranges"), ("pancake", "pancakes"), ("peach", "peaches"),
    ("pear", "pears"), ("plum", "plums"), ("potato", "potatoes"), ("radish", "radishes"),
    ("strawberry", "strawberries"),
]  # fmt: skip
CROPS = [
    ("bean", "beans"), ("carrot", "carrots"), ("melon", "melons"), ("onion", "onions"), ("potato", "potatoes"),
    ("pumpkin", "pumpkins"), ("radish", "radishes"), ("rose", "roses"), ("sunflower", "sunflowers"),
    ("tomato", "tomatoes"), ("tulip", "tulips"), ("turnip", "turnips"),
]  # fmt: skip
NUMBERS = _words("no one two three four five six seven eight nine ten eleven twelve")

# preposition, place
PLACES = [
    ("at", "the bakery"), ("on", "the beach"), ("at", "the big oak"), ("in", "the castle yard"), ("in", "the cave"),
    ("at", "the crossroads"), ("at", "the farm"), ("in", "the forest"), ("at", "the fountain"), ("at", "the harbour"),
    ("on", "the hill"), ("on", "the island"), ("at", "the lake"), ("in", "the library"), ("at", "the lighthouse"),
    ("at", "the market"), ("in", "the meadow"), ("at", "the mill"), ("in", "the orchard"), ("in", "the park"),
    ("at", "the pond"), ("at", "the river"), ("at", "the school"), ("at", "the stone bridge"), ("in", "the valley"),
    ("in", "the village square"), ("at", "the waterfall"), ("at", "the well"),
]  # fmt: skip
HOMES = [
    ("in", "a cottage with a round door"), ("on", "a small boat"), ("in", "a tall tower"), ("in", "a house of stone"),
    ("in", "a hut under a willow"), ("above", "a bookshop"), ("in", "a wooden house"), ("behind", "an old inn"),
    ("in", "a house with blue windows"), ("near", "a railway"), ("beside", "a windmill"), ("in", "a tent"),
    ("at", "the end of a long lane"), ("in", "a street full of cats"), ("under", "an old bridge"),
    ("in", "a garden shed"),
]  # fmt: skip
SEASONS = _words("spring summer autumn winter")
FASTER = {"fast": "slow", "quick": "clumsy", "strong": "small", "wide awake": "sleepy"}

RULES = {
    # --- for any story ---
    "adverb": _words("carefully slowly quickly quietly happily bravely calmly eagerly gladly softly"),
    "said": _words("said cried called whispered shouted laughed"),
    "glad": _phrases("glad | happy | pleased | proud | full of joy | very cheerful"),
    "sad": _phrases("sad | worried | upset | unhappy | troubled | close to tears"),
    "day": _phrases(
        "One morning | One day | One afternoon | One {season} morning | One {season} day | Early one day | Late one "
        "afternoon | On a Monday | On a Saturday | On a Sunday | On the first day of {season}"
    ),
    "next_day": _phrases(
        "The next morning | The next day | A day later | Two days later | A week later | Soon afterwards"
    ),
    "meanwhile": _phrases("After a while | Before long | A little later | At noon | An hour later | In the end"),
    # the weather fits the season
    "weather": [
        "Soft rain fell on the roofs.",
        "White clouds moved across the sky.",
        "The sky was clear.",
        "It had rained all night, and the road was wet.",
        "It was so quiet that you could hear the wind.",
        "The air smelled of fresh bread.",
        "The air smelled of smoke.",
    ],
    "weather in spring": ["The first flowers were out.", "Birds sang in every tree.", "The air smelled of wet earth."],
    "weather in summer": ["The sun was hot.", "Bees flew from flower to flower.", "The air smelled of hay."],
    "weather in autumn": ["Leaves were falling.", "Thick fog lay over the fields.", "The air smelled of mushrooms."],
    "weather in winter": [
        "Snow covered the path.",
        "A cold wind blew from the north.",
        "There was ice on the puddles.",
    ],
    "hiding": _phrases(
        "behind a large stone | under a bench | between two barrels | in the tall grass | under a heap of leaves | "
        "behind a door | in an empty nest | beside a wall | on a low branch | in a hollow log | under some old "
        "sacks | next to a post"
    ),
    "seen": _phrases(
        "a spider | two geese | a broken wheel | some dry leaves | an old newspaper | a sleeping cat | a heap of "
        "sand | three snails | a rusty nail | an empty jar | some feathers | a torn sail | a family of ants"
    ),
    "way": _phrases("walked | ran | hurried | went | set off | rode | wandered"),
    "once": _phrases("Once there was | There once was | Long ago there was | In a far country there was | There was"),
    "opening": [
        "[once] {hero:kind} called {hero}, who lived {hero_home:at}. {hero:They} was {hero_trait}, and {hero:their} "
        "best friend was {friend}, {friend:kind}.",
        "{hero} was {hero:kind} who lived {hero_home:at}. {hero:Their} best friend was {friend:kind} named {friend}. "
        "Everyone said that {hero} was {hero_trait}.",
        "[once] {hero:kind} named {hero}. {hero} had a friend called {friend}. {friend} was {friend:kind}.",
        "{friend}, {friend:kind}, and {hero}, {hero:kind}, were good friends. {hero} lived {hero_home:at}.",
        "Everybody knew {hero}, a {hero_trait} {hero:noun} who lived {hero_home:at}. {hero:Their} friend {friend} was "
        "{friend:kind}.",
    ],
    "friend_fact": [
        "{friend} lived {friend_home:at} and loved {food}.",
        "{friend} was {friend_trait} and liked {food} more than anything else.",
        "{friend}, who lived {friend_home:at}, ate {food} every day.",
        "Nobody was as fond of {food} as {friend}, who lived {friend_home:at}.",
    ],
    "hero_fact": [
        "{hero} had {thing:a}. {thing:It} {thing:was} a present from {helper}.",
        "{hero:Their} grandmother had given {hero} {thing:a}.",
        "Of all {hero:their} things, {hero} liked {hero:their} {thing} best.",
        "{hero} never left home without {hero:their} {thing}.",
        "{hero} owned {thing:a}, and {hero:they} was proud of {thing:it}.",
    ],
    "moral": [
        "From that day on, {hero} and {friend} met {place:at} every week.",
        "{hero} and {friend} remembered that day for a long time.",
        "That evening {hero} slept well {hero_home:at}.",
        "{friend} went home, ate some {food} and fell asleep.",
        'And {hero} thought: "A good friend is better than gold."',
        "They stayed friends for ever.",
        "And if you go {place:to}, you may meet {hero} and {friend} there today.",
        "Then {hero} told the story to everyone {third:at}.",
        "When {hero:they} got home, {hero} wrote it all down in a little book.",
        "{helper:The} told everybody what {hero} and {friend} had done.",
    ],
    "thanks": [
        '"Thank you, {friend}," [said] {hero}. "You are a true friend."',
        "{hero} thanked {friend} and gave {friend:them} a hug.",
        '"I could not have done it without you," {hero} told {friend}.',
        "{hero} smiled at {friend}, and {friend:they} smiled back.",
        '{hero} said thank you. "You are welcome, {hero}," said {friend}.',
    ],
    "thanks_to_hero": [
        '"Thank you, {hero}," [said] {friend}. "You are a true friend."',
        "{friend} thanked {hero} and gave {hero:them} a hug.",
        '"I will never forget this," {friend} told {hero}.',
        '{friend} said thank you. "You are welcome, {friend}," said {hero}.',
    ],
    # --- something is lost ---
    "lost": ["[lost_play] [lost_gone]", "[lost_play] [weather] [lost_gone]"],
    "lost_play": [
        "[day], {hero} and {friend} played {place:at}.",
        "[day], {hero} took {hero:their} {thing} {place:to} and showed {thing:it} to {friend}.",
        "[day], {hero} met {friend} {place:at}, and they talked until noon.",
        "[day], {hero} [way] {place:to} with {hero:their} {thing}. {friend} was there too.",
    ],
    "lost_gone": [
        "But when {hero} came home, {hero:their} {thing} {thing:was} gone.",
        "On the way back {hero} looked into {hero:their} pocket. The {thing} {thing:was} not there.",
        "In the evening {hero} could not find {hero:their} {thing} anywhere, and {hero:they} was [sad].",
    ],
    "lost_ask": [
        '"{friend}, have you seen my {thing}?" asked {hero}. "No," said {friend}, "but I will help you to look for '
        '{thing:it}."',
        '"My {thing} {thing:is} gone," [said] {hero}. "We will find {thing:it}," [said] {friend}.',
        "{hero} told {friend} about {hero:their} {thing}. {friend} [adverb] put on {friend:their} coat and came.",
    ],
    "lost_search": [
        "First they looked {second:at}, but all they saw was [seen]. Then they [way] {third:to}. The {thing} "
        "{thing:was} not there.",
        "They searched {second:at} for an hour and found [seen]. {third:At} they found [seen].",
        "{friend} looked {second:at}, and {hero} looked {third:at}. {friend} saw [seen], and {hero} saw [seen].",
    ],
    "lost_hint": [
        'Then they met {helper}. "Think," said {helper}. "Where did you play?"',
        '{helper:The} heard them and asked: "When did you last have {thing:it}?"',
        'At last they asked {helper}. "Go back to where you began," was the answer.',
    ],
    "lost_found": [
        '"{place:At}!" cried {hero}. They ran {place:to}, and [hiding] {thing:was} the {thing}.',
        "So they went back {place:to}. There {thing:was} the {thing}, [hiding]. {hero} was [glad].",
        "{hero} and {friend} hurried {place:to}. [meanwhile] {friend} found the {thing} [hiding].",
    ],
    # --- a present ---
    "gift": [
        "It was {friend}'s birthday, and {hero} wanted to give {friend:them} a present.",
        "[day], {hero} remembered that the next day was {friend}'s birthday.",
        "{friend} was ill and had to stay in bed. {hero} wanted to cheer {friend:them} up.",
    ],
    "gift_plan": [
        '"What does {friend} like?" {hero} asked {hero:themself}. Then {hero:they} remembered: {food}.',
        '"I know," [said] {hero}. "{friend} loves {food}."',
        "{hero} thought of a hat, and of a song. But {friend} loved {food}, so {food} it had to be.",
    ],
    "gift_way": [
        "[weather] {hero} took {hero:their} {thing} and [way] {place:to}. There {hero:they} saw [seen], but no {food}.",
        '{hero} [way] {place:to} and asked {helper}: "Do you have any {food}?" "No," said {helper}, "but there are '
        'some {second:at}."',
        "There were no {food} {place:at}, and there were none {third:at}.",
    ],
    "gift_found": [
        "{second:At} {hero} found {many}. {hero:They} put {many:it} into {hero:their} bag.",
        "[meanwhile] {hero} came {second:to}. An old woman sold {hero} {many}.",
        "{second:At} {hero} met an old man, who gave {hero} {many} for nothing.",
    ],
    "gift_given": [
        '{hero} knocked at {friend}\'s door. "Look what I have for you," [said] {hero}. "Oh, {food}!" [said] '
        "{friend}. {friend:They} was [glad].",
        "When {friend} saw the {many:number} {many:noun}, {friend:they} laughed and danced around the room.",
        "{friend} could not believe {friend:their} eyes. There {many:was} {many} on the table.",
    ],
    # --- sharing: the numbers agree ---
    "share": [
        "[day], {hero} found {many} {place:at}.",
        "[day], {helper} gave {hero} {many}. {many:It} {many:was} still warm from the sun.",
        "[day], {hero} came home from {place} with {many} in a basket.",
        "[weather] {hero} had {many} and was on the way {place:to}.",
    ],
    "share_meet": [
        'On the road {hero} met {friend}. "I am so hungry," said {friend}.',
        "{friend} was sitting {second:at}. {friend:They} had eaten nothing all day.",
        '"Where are you going, {hero}?" asked {friend}. "Home," said {hero}. "I have {many}. Would you like some?"',
    ],
    "share_give": [
        "{hero} gave {friend} {some}. Now {hero} had {rest}.",
        '"Take {some}," said {hero}. So {friend} had {some}, and {hero} had {rest}.',
        "{hero} counted the {many:noun} and gave {some:number} to {friend}. {rest:Number} {rest:was} left.",
    ],
    "share_end": [
        "They sat down {second:at} and ate. {friend} ate {some:number}, and {hero} ate {rest:number}.",
        'Then {helper} came by. "How many did you have?" "{many:Number}," said {hero}. "And now?" "{rest:Number}."',
        "{friend} ate {friend:their} {some:noun} [adverb]. {hero} took the other {rest:noun} home.",
    ],
    # --- somebody is in trouble ---
    "rescue": [
        "[day], {hero} heard a sound {place:at}. It was {creature:a}, stuck [hiding].",
        "[weather] {hero} [way] {place:to}. Suddenly a voice called for help. {creature:A} had fallen into a hole.",
        "[day], {hero} saw {creature:a} {place:at}. It could not get out of the mud.",
    ],
    "rescue_try": [
        "{hero} pulled and pulled, but {hero:they} was not strong enough.",
        '"Do not be afraid," [said] {hero}. But the {creature} shook with fear.',
        "{hero} tried to reach the {creature} with {hero:their} {thing}, but it was too far away.",
    ],
    "rescue_tool": [
        "Then {hero} remembered that {friend} had {tool:a}. {hero:They} ran to {friend}, who lived {friend_home:at}. "
        '"Bring your {tool}!" [said] {hero}.',
        '"{friend} has {tool:a}," thought {hero}, and {hero:they} ran to fetch {friend:them}.',
        "Just then {friend} came along with {tool:a}.",
    ],
    "rescue_done": [
        "{friend} used the {tool} [adverb], and together they saved the {creature}.",
        "With the {tool} it was easy. {hero} held one end and {friend} held the other, and the {creature} was free.",
        "{friend} had an idea. {friend:They} tied the {tool} to a tree, and the {creature} climbed out.",
    ],
    "rescue_end": [
        "The {creature} was [glad] and followed {hero} and {friend} home.",
        '"How can I thank you?" asked the {creature}. "Come and see us {second:at}," said {friend}.',
        "[next_day], the {creature} brought {friend} some {food}.",
    ],
    # --- a journey, and the same way back ---
    "journey": [
        "[day], {helper} gave {hero} {errand:a} for {friend}, who lived {friend_home:at}.",
        "[day], {hero} wanted to bring {friend} {errand:a}. It was a long way.",
        '[day], {helper} said: "{hero}, please take this {errand} to {friend}."',
    ],
    "journey_out": [
        "[weather] {hero} first came {place:to}, then {second:to}, and at last {third:to}.",
        "From home {hero} [way] {place:to}. From {place} {hero:they} went {second:to}, and from {second} {third:to}.",
        "{place:At} {hero} saw [seen]. {second:At} {hero:they} rested. {third:At} {hero:they} drank some water.",
    ],
    "journey_there": [
        '"This {errand} is for you," said {hero}. "You must be tired," [said] {friend}. They ate {food} together.',
        "{friend} was [glad] to see {hero} and the {errand}, and they talked until late.",
        '{friend} took the {errand}. "I have walked all day," said {hero}. {friend} gave {hero:them} some {food}.',
    ],
    "journey_back": [
        "[next_day], {hero} went back the same way: first {third:to}, then {second:to}, then {place:to}, and home.",
        "On the way back {hero} passed {third}, then {second}, and last of all {place}.",
        "{hero} went home by way of {third}, {second} and {place}, and {hero:they} still had {hero:their} {thing}.",
    ],
    # --- a race ---
    "race": [
        '[day], {hero} said: "Let us race from {place} {second:to}!" {friend} agreed.',
        "[day], there was a race from {place} {second:to}. {hero} and {friend} both took part.",
        '"The first of us {second:at} gets {many}," said {friend}. They started {place:at}.',
    ],
    "race_odds": [
        "{winner} was {faster}, but {loser} was {slower}.",
        "Everybody knew that {winner} was {faster} and that {loser} was {slower}.",
        "{loser} was {slower}. {winner}, however, was {faster}.",
    ],
    "race_run": [
        "They ran past {third}. {loser} stopped to look at [seen], but {winner} ran on.",
        "[weather] At {third} they were side by side. Then {winner} ran ahead.",
        "{helper:The} counted to three, and off they went. {third:At} {winner} was already in front.",
    ],
    "race_won": [
        "{winner} reached {second} first. {winner:They} won {many}, because {winner:they} was {faster}.",
        '"{winner} has won!" [said] {helper}. {loser} was not angry. {loser:They} clapped {loser:their} hands.',
        "So {winner} won, and {loser} came second. {winner} shared the {many:noun} with {loser:them}.",
    ],
    # --- something is lent ---
    "lend": [
        "[day], {hero} and {friend} were {place:at} when it began to rain.",
        "[day], {friend} came {place:to} without a coat. A cold wind was blowing.",
        "It was late, and {friend} had a long way home from {place}.",
    ],
    "lend_give": [
        '"Are you cold?" asked {hero}. "Take my {coat}." {friend} put it around {friend:their} shoulders.',
        "{hero} had {coat:a} and lent it to {friend}.",
        '{friend} was cold. "You may have my {coat} until tomorrow," said {hero}.',
    ],
    "lend_trouble": [
        "{second:At} the {coat} caught on a branch and tore. {friend} was [sad].",
        "On the way home {friend} fell into the mud, and the {coat} was dirty.",
        "{friend} slept so long that {friend:they} forgot about the {coat}.",
    ],
    "lend_back": [
        "[next_day], {helper} helped {friend} to mend and wash the {coat}. Then {friend} brought it back to {hero}.",
        "[next_day], {friend} knocked at {hero}'s door with the {coat} and some {food}.",
        '[next_day], {friend} came back. "Here is your {coat}," said {friend}. "It looks like new," said {hero}.',
    ],
    # --- a garden through the year ---
    "garden": [
        "In spring {hero} planted {crops} behind {hero:their} home. {friend} held the {tool}.",
        "In March {hero} bought seeds {place:at}. {hero:They} and {friend} planted {crops}.",
        "{helper:The} told {hero} how to grow {crops}. In April {hero} put the seeds into the ground, and {friend} "
        "watered them.",
    ],
    "garden_wait": [
        "Every day {hero} looked, but there was nothing to see. The earth was bare and brown.",
        '"When will the {crops} grow?" asked {friend}. "Be patient," said {hero}.',
        "In May there was no rain. {hero} carried water from {second}, and {friend} carried water from {third}.",
    ],
    "garden_grow": [
        "In June the first leaves came. {creature:A} wanted to eat them, but {friend} chased it away.",
        "By summer the {crops} were as tall as {friend}.",
        "One day in July {hero} woke up and looked outside. There the {crops} were!",
    ],
    "garden_end": [
        "In autumn they counted {harvest}. {helper:The} had never seen such fine {crops}.",
        "In September there {harvest:was} {harvest}. {hero} took {harvest:it} {place:to}.",
        "They carried {harvest} {place:to} and gave one of them to {helper}.",
    ],
}

# A story is an opening, what its people have and like, one of these chains of events, and a last sentence.
FACTS = _words("hero_fact friend_fact")
PLOTS = {
    "lost": _words("lost lost_ask lost_search lost_hint lost_found thanks"),
    "gift": _words("gift gift_plan gift_way gift_found gift_given"),
    "share": _words("share share_meet share_give share_end thanks_to_hero"),
    "rescue": _words("rescue rescue_try rescue_tool rescue_done rescue_end thanks"),
    "journey": _words("journey journey_out journey_there journey_back"),
    "race": _words("race race_odds race_run race_won"),
    "lend": _words("lend lend_give lend_trouble lend_back thanks_to_hero"),
    "garden": _words("garden garden_wait garden_grow garden_end"),
}
