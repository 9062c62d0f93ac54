"""Text as tokens, and text from a model: tokenisers and decoding.

```python
tokeniser = Tokeniser.train(BPE, text, 1000)
ids = tokeniser.encode("To be, or not")
found = sample_sequence(model, ids, 200, key=key, top_p=0.9)     # any model with cache and step
tokeniser.decode(found.tokens)
```
"""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
