"""Chat templates in the popular styles, as small programs of our own, and conversations for them."""

import random

SPECIAL = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>")

CHATML = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""

LLAMA_2 = """\
{%- if messages[0]['role'] == 'system' -%}
    {%- set rest = messages[1:] -%}
    {%- set system = '<<SYS>>\n' + messages[0]['content'] + '\n<</SYS>>\n\n' -%}
{%- else -%}
    {%- set rest = messages -%}
    {%- set system = '' -%}
{%- endif -%}
{%- for message in rest -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('user and assistant must take turns: user, assistant, user, …') }}
    {%- endif -%}
    {%- set content = system + message['content'] if loop.first else message['content'] -%}
    {%- if message['role'] == 'user' -%}
        {{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
    {%- elif message['role'] == 'assistant' -%}
        {{ ' ' + content | trim + ' ' + eos_token }}
    {%- endif -%}
{%- endfor -%}
"""

LLAMA_3 = """\
{{- bos_token }}
{%- if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}
{%- if messages[0].role == 'system' %}
    {%- set system = messages[0].content | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\n\n' }}
{%- if tools is not none %}
    {{- 'Environment: ipython\n' }}
{%- endif %}
{{- 'Today: ' ~ date_string ~ '\n\n' ~ system ~ '<|eot_id|>' }}
{%- for message in messages %}
    {%- if message.role in ('tool', 'ipython') %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\n\n' }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- '<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}
"""

GEMMA = """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('There is no system role here') }}{% endif %}
{% for message in messages %}
{% if message['role'] == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}
{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model
' }}{% endif %}"""

ZEPHYR = """\
{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\n' + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

QWEN = """\
{%- macro described(tool) %}{{ '\n' ~ tool | tojson }}{% endmacro %}
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {{- messages[0].content if messages[0].role == 'system' else 'You help with everything.' }}
    {{- "\n\n# Tools\n<tools>" }}
    {%- for tool in tools %}{{ described(tool) }}{% endfor %}
    {{- '\n</tools><|im_end|>\n' }}
{%- elif messages[0].role != 'system' %}
    {{- '<|im_start|>system\nYou help with everything.<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(last_query=messages|length - 1, searching=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == 'user' and not message.content.startswith('<tool_response>') %}
        {%- set ns.searching = false %}
        {%- set ns.last_query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
        {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}
        {%- continue %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\n' }}
    {%- if message.reasoning_content is defined and loop.index0 > ns.last_query %}
        {{- '<think>\n' + message.reasoning_content.strip('\n') + '\n</think>\n\n' }}
    {%- endif %}
    {{- message.content or '' }}
    {%- for call in message.tool_calls or [] %}
        {%- if call.function %}{% set call = call.function %}{% endif %}
        {{- '\n<tool_call>\n{"name": "' ~ call.name ~ '", "arguments": ' }}
        {{- call.arguments if call.arguments is string else call.arguments | tojson }}
        {{- '}\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}
{%- endif %}
"""

MISTRAL = """\
{%- set loop_messages = messages[1:] if messages[0].role == 'system' else messages %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message.role == 'user' %}
        {%- if loop.last and messages[0].role == 'system' %}
            {{- '[INST] ' + messages[0].content + '\n\n' + message.content + '[/INST]' }}
        {%- else %}
            {{- '[INST] ' + message.content + '[/INST]' }}
        {%- endif %}
    {%- elif message.role == 'assistant' %}
        {%- generation %}{{ ' ' + message.content + eos_token }}{% endgeneration %}
    {%- else %}
        {{- raise_exception('The role ' + message.role + ' is not known here') }}
    {%- endif %}
{%- endfor %}
"""

ODDS = """\
{% set ns = namespace(count=0, names=[]) %}
{% for message in messages if message.role != 'system' %}
  {% set ns.count = ns.count + message.content | length * 2 %}
  {% set ns.names = ns.names + [message.role] %}
  {% if loop.index > 3 %}{% break %}{% endif %}
{% endfor %}
{{ ns.names | join(', ') }}|{{ ns.count }}|{{ 2 ** 5 }}|{{ '=' * 3 }}|{{ [0] * 2 }}|{{ none_such }}
{% set written %}{% for m in messages %}{{ m.content | upper | replace('A', 'b') }}~{% endfor %}{% endset %}
{{ written | trim | indent(2) }} {{ dict(a=1, b=[2]) | tojson(indent=2) }} {{ messages | map(attribute='role') | list }}
{{ messages | tojson(separators=(',', ':'), sort_keys=true) }} {{ '<é&"' | tojson }}
{{ '<é' | tojson(ensure_ascii=true) }}
{{ dict.fromkeys(['x'], 1) }} {{ messages[-1].content.split() | last | default('none') }} {{ 7 // 2 }} {{ "%s!" % 'a' }}
{% macro twice(x) %}{{ x }}{{ caller() }}{{ x }}{% endmacro %}{% call twice('u') %}-{% endcall %}
{%- filter upper %} shouted {% endfilter %}{{ documents is none }}{{ tools is none }}{{ bos_token ~ eos_token }}
{% for key, value in (messages[0] | dictsort) %}{{ loop.index0 }}{{ loop.cycle('a', 'b') }}{{ key }}{% else %}
{% endfor %}
"""

TEMPLATES = {
    "chatml": CHATML,
    "llama 2": LLAMA_2,
    "llama 3": LLAMA_3,
    "gemma": GEMMA,
    "zephyr": ZEPHYR,
    "qwen": QWEN,
    "mistral": MISTRAL,
    "odds": ODDS,
}

WORDS = [
    "lake",
    "  two\n spaces ",
    "",
    "é🙂",
    "<b>&amp;",
    '"quoted" \\n',
    "{{ 7 * 7 }}",
    "{% raw %}",
    "a\tb\r\nc",
    "</s>",
    "٣",
]


def conversation(seed: int) -> dict:
    """Arguments of a rendering: messages of all roles, some with tools, reasoning and values that are None."""
    r = random.Random(seed)

    def content() -> str:
        return " ".join(r.choices(WORDS, k=r.randint(0, 4)))

    messages = [{"role": "system", "content": content()}] if r.random() < 0.5 else []
    for _ in range(r.randint(1, 4)):
        messages.append({"role": "user", "content": content()})
        if r.random() < 0.8:
            answer = {"role": "assistant", "content": content()}
            if r.random() < 0.3:
                answer[r.choice(["reasoning_content", "thinking", "reasoning"])] = r.choice([content(), None])
            if r.random() < 0.3:
                arguments = r.choice([{"n": r.randint(0, 9), "place": content()}, content()])
                function = {"name": "find", "arguments": arguments}
                answer |= {"tool_calls": [r.choice([function, {"type": "function", "function": function}])]}
                messages += [answer, {"role": "tool", "content": content(), "name": None}]
                continue
            messages.append(answer | {"tool_calls": None} if r.random() < 0.2 else answer)
    given = {"messages": messages, "add_generation_prompt": r.random() < 0.5, "date_string": "1 May 2025"}
    if r.random() < 0.3:
        given["tools"] = [{"type": "function", "function": {"name": "find", "parameters": {"n": {"type": "integer"}}}}]
    if r.random() < 0.3:
        given["enable_thinking"] = r.random() < 0.5
    return given
