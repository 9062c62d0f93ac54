"""Text as tokens, and text from a model: tokenisers and decoding.

```python
tokeniser = Tokeniser.train(BPE, text, 1000)
ids = tokeniser.encode("To be, or not")
found = sample_sequence(model, ids, 200, key=key, top_p=0.9)     # any model with cache and step
tokeniser.decode(found.tokens)
```
"""

from corollary.language.bpe import BPE
from corollary.language.filters import top_k_filter, top_p_filter
from corollary.language.generation import Decoded, greedy_search, sample_sequence, sequence_log_probability
from corollary.language.gpt2 import TokenRow, book_gpt2_table, gpt2_token_table, token_table
from corollary.language.models import ConditionalTable, LastTokens, MarkovChain, Model, Recomputed
from corollary.language.search import beam_search, exhaustive_search, table_beam_search
from corollary.language.splitting import bert_words, characters, normaliser, unchanged, uncut, words
from corollary.language.tokeniser import Tokeniser, Whole
from corollary.language.unigram import Unigram
from corollary.language.wordpiece import WordPiece

__all__ = [
    "BPE",
    "ConditionalTable",
    "Decoded",
    "LastTokens",
    "MarkovChain",
    "Model",
    "Recomputed",
    "TokenRow",
    "Tokeniser",
    "Unigram",
    "Whole",
    "WordPiece",
    "beam_search",
    "bert_words",
    "book_gpt2_table",
    "characters",
    "exhaustive_search",
    "gpt2_token_table",
    "greedy_search",
    "normaliser",
    "sample_sequence",
    "sequence_log_probability",
    "table_beam_search",
    "token_table",
    "top_k_filter",
    "top_p_filter",
    "unchanged",
    "uncut",
    "words",
]
