import torch


def _targets(ids, counts, ignored=-100):
    return ids[:-1], torch.where(counts, ids[1:], ignored)


def two_to_the_left(ids, is_answer):
    """You have shifted the mask by one token too many: the second token of an answer decides about its first one."""
    return _targets(ids, torch.cat((is_answer[2:], torch.tensor([False]))))


def all_targets(ids, is_answer):
    """All of your targets count, also those of the questions."""
    return _targets(ids, torch.ones(len(ids) - 1, dtype=torch.bool))


def both_of_them(ids, is_answer):
    """A target of yours counts only if the input is a token of the answer, too. The first token of an answer is still
    missing."""
    return _targets(ids, is_answer[1:] & is_answer[:-1])


def either_of_them(ids, is_answer):
    """A target of yours also counts if only the input is a token of an answer. So the token after an answer counts."""
    return _targets(ids, is_answer[1:] | is_answer[:-1])


def questions_learned(ids, is_answer):
    """Your targets are the tokens of the questions. The mask is the wrong way round."""
    return _targets(ids, ~is_answer[1:])


def targets_not_shifted(ids, is_answer):
    """Each of your targets is its own input. The target is the token that follows."""
    return ids[:-1], torch.where(is_answer[:-1], ids[:-1], -100)


def inputs_hidden(ids, is_answer):
    """You also hide the inputs. The model has to read the question."""
    inputs, targets = _targets(ids, is_answer[1:])
    return torch.where(is_answer[:-1], inputs, -100), targets


def end_left_out(ids, is_answer):
    """The token that ends an answer does not count any more, so a model would not learn to stop."""
    last = is_answer & ~torch.cat((is_answer[1:], torch.tensor([False])))
    return _targets(ids, (is_answer & ~last)[1:])


def last_answer_alone(ids, is_answer):
    """Only the targets of the last answer count. All answers should."""
    starts = (is_answer & ~torch.cat((torch.tensor([False]), is_answer[:-1]))).nonzero()
    counts = is_answer & (torch.arange(len(ids)) >= starts[-1])
    return _targets(ids, counts[1:])


def all_after_the_first_question(ids, is_answer):
    """All targets from the first answer on count. The questions after it should not."""
    return _targets(ids, is_answer.cummax(0).values[1:].bool())


def zero_for_ignored(ids, is_answer):
    """You put 0 where a target does not count. The loss takes this for a token; it leaves out -100."""
    return _targets(ids, is_answer[1:], 0)


def minus_one_for_ignored(ids, is_answer):
    """You put -1 where a target does not count. The loss leaves out -100."""
    return _targets(ids, is_answer[1:], -1)


def left_out(ids, is_answer):
    """You leave out the targets that do not count, so that inputs and targets are not equally long any more."""
    return ids[:-1], ids[1:][is_answer[1:]]


def mask_returned(ids, is_answer):
    """In place of the targets, you return which of them count."""
    return ids[:-1], is_answer[1:].long()


def not_cut(ids, is_answer):
    """You keep the last input, after which nothing follows. There is one input less than there are tokens."""
    hidden = torch.where(is_answer, ids, -100)
    return ids, torch.cat((hidden[1:], torch.tensor([-100])))


def exchanged(ids, is_answer):
    """You return the targets first. The inputs come first."""
    return _targets(ids, is_answer[1:])[::-1]
