"""Does it read its text? For networks that give a class to each token of a sequence, language models above all.

Whether they see later tokens and whether the order of earlier ones matters (`_read_tokens`), what they pay per token
beside what counting would pay, and tokens that training never showed (`_paid_tokens`) or shows under other numbers
(`_renumbered`). An example is a sequence, and
intervals are over sequences: tokens of one text are no independent draws.
"""

import jax

from corollary.audit._answer import because, by_name, first
from corollary.audit._text import text_of
from corollary.audit.action import advise
from corollary.audit.sections import _law, _paid_tokens, _read_tokens, _renumbered
from corollary.audit.sections._paid_tokens import PERPLEXITY, UNSEEN
from corollary.audit.sections._read_tokens import AHEAD, ORDER, TARGETS

TITLE = "Does it read its text?"
GAPS = ("gap between training and test error", "gap between training and test loss")
EXPLAINS = {
    # what is given away need not be learned
    TARGETS: (AHEAD, ORDER, PERPLEXITY),
    AHEAD: (ORDER, PERPLEXITY, *GAPS),
    ORDER: (PERPLEXITY,),
    UNSEEN: (PERPLEXITY, *GAPS),
    _renumbered.NAME: (_law.NAME, UNSEEN, PERPLEXITY, *GAPS),
}
#: in use there is no future: an error with it says nothing of one without
UNSETTLES = {AHEAD: ("Will it generalise?",)}
DECIDE = (TARGETS, AHEAD, ORDER, _renumbered.NAME, UNSEEN, PERPLEXITY)


def findings(subject, budget, key):
    ahead_key, order_key = jax.random.split(key)
    aim = _read_tokens.measure_targets(text_of(subject, "train"))
    yield _read_tokens.judge_targets(aim)
    yield _read_tokens.judge_ahead(_read_tokens.measure_ahead(subject, budget, ahead_key), aim)
    yield _read_tokens.judge_order(_read_tokens.measure_order(subject, budget, order_key), aim)
    split = subject.splits[-1]
    yield _paid_tokens.judge_perplexity(_paid_tokens.measure_paid(subject, split), split)
    yield _paid_tokens.judge_unseen(_paid_tokens.measure_unseen(subject, aim))
    if (numbers := _renumbered.judge(_renumbered.measure(subject))) is not None:
        yield numbers


def answer(findings) -> str:
    for mark, word in (("problem", "No"), ("look", "Partly")):
        if (decides := first(findings, DECIDE, mark)) is not None:
            return because(word, decides.sentence)
    return because("Yes", by_name(findings)[PERPLEXITY].sentence)


def actions(subject, findings):
    remedies = {
        TARGETS: _read_tokens.shift,
        AHEAD: _read_tokens.mask,
        ORDER: _read_tokens.add_positions,
        UNSEEN: _paid_tokens.show_tokens,
        _renumbered.NAME: _renumbered.rename,
    }
    yield from advise(subject, findings, EXPLAINS, remedies)
