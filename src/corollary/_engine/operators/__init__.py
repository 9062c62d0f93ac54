"""The operators that networks from elsewhere are made of: channels first, any number of spatial dimensions. Private.

An example is `x` of shape (batch, channels, *space). Windows, strides and dilations are one integer per spatial axis,
padding is one pair (before, after) per spatial axis; both are known when a program is traced.
"""
