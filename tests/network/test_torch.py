"""PyTorch modules read by their operators: outputs, derivatives and subgradients are PyTorch's, in double precision."""

import math

import jax
import numpy as np
import pytest

from corollary import Network
from corollary.network._aten.table import NotSupported, bound

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'corollary[torch]'")
nn, F = torch.nn, torch.nn.functional


def compared(module, example, output=None, rtol=1e-9):
    """The network of a module, if outputs and gradients for a batch are the module's."""
    module = module.double().eval()
    network = Network.from_torch(module, example, output=output)
    rng = np.random.default_rng(0)

    def batch(a):
        a = np.asarray(a)
        return rng.normal(size=(3, *a.shape)) if a.dtype.kind == "f" else np.stack([np.roll(a, k) for k in range(3)])

    x = jax.tree.map(batch, example)
    tensors = jax.tree.map(torch.as_tensor, x)
    out = module(**tensors) if isinstance(x, dict) else module(*tensors if isinstance(x, tuple) else (tensors,))
    if output is not None:
        out = out[output]
    weights = rng.normal(size=out.shape)
    names, held = zip(*[(name, p) for name, p in module.named_parameters() if p.requires_grad], strict=True)
    slopes = torch.autograd.grad((out * torch.as_tensor(weights)).sum(), held, allow_unused=True)

    @jax.jit
    def output_and_gradient(params, x, weights):
        ours, pull = jax.vjp(lambda params: jax.vmap(network.with_params(params))(x), params)
        return ours, pull(weights)[0]

    ours, gradient = output_and_gradient(network.params, x, weights)
    close(ours, out.detach().numpy(), rtol)
    assert set(gradient) == {name for name, slope in zip(names, slopes, strict=True) if slope is not None}
    largest = max(float(slope.abs().max()) for slope in slopes if slope is not None)
    for name, slope in zip(names, slopes, strict=True):
        if slope is not None:
            close(gradient[name], slope.numpy(), rtol, largest, name)
    return network


def close(ours, theirs, rtol, largest=None, name=""):
    largest = np.abs(theirs).max(initial=0) if largest is None else largest
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * largest, err_msg=name)


class Each(nn.Module):
    """Functions of one parameter, each with its own number, so that a wrong one cannot hide behind another."""

    def __init__(self, start, functions):
        super().__init__()
        self.w, self.functions = nn.Parameter(torch.as_tensor(start)), functions

    def forward(self, x):
        w = self.w + 0 * x.mean()
        found = torch.cat([f(w).to(w.dtype).reshape(-1) for f in self.functions])
        return found + 0 * x[:, :1]


POINTS = np.array([-7.0, -6.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 7.0, 0.3])


def test_activations_have_the_subgradients_of_pytorch_at_their_kinks():
    functions = (
        F.relu, F.relu6, F.hardtanh, F.hardsigmoid, F.hardswish, F.leaky_relu, F.elu, F.selu, F.celu, F.gelu, F.silu,
        F.mish, F.softplus, F.softsign, F.softshrink, F.hardshrink, F.tanhshrink, F.logsigmoid, torch.sigmoid,
        torch.abs,
        lambda w: F.gelu(w, approximate="tanh"), lambda w: F.hardtanh(w, -3, 0.5), lambda w: F.threshold(w, 1.0, 2.0),
        lambda w: F.prelu(w.reshape(1, 2, 6), w[:2]), lambda w: F.glu(w), lambda w: F.softplus(w, 3, 2),
        lambda w: w.clamp(-1, 3), lambda w: w.clamp_min(0), lambda w: w.clamp(max=0.5),
        lambda w: w.clamp(w.flip(0), w + 1),
        lambda w: torch.maximum(w, w.flip(0)), lambda w: torch.minimum(w, 0 * w), lambda w: torch.fmax(w, w.roll(1)),
        lambda w: F.softmax(w, 0), lambda w: F.log_softmax(w.reshape(3, 4), 1), lambda w: F.rrelu(w), F.normalize,
        lambda w: F.dropout(w, 0.5, training=False), lambda w: F.celu(w, 2.0), lambda w: (w - w).norm(dim=0),
    )  # fmt: skip
    compared(Each(POINTS, [lambda w, f=f: f(w.reshape(2, 6)) if f is F.normalize else f(w) for f in functions]), POINTS)


def test_arithmetic():
    p = POINTS / 4 + 2
    functions = (
        torch.exp, torch.log, torch.sqrt, torch.rsqrt, torch.sin, torch.erf, torch.log1p, torch.expm1, torch.atan,
        lambda w: -w, lambda w: 1 - w, lambda w: 1 / w, lambda w: w**2, lambda w: 2**w, lambda w: w**w,
        lambda w: w / 3,
        lambda w: w.detach() // 2, lambda w: w % 2, lambda w: torch.fmod(w, 2), lambda w: torch.atan2(w, w + 1),
        torch.frac,
        lambda w: torch.where(w > 2, w, 0.0), lambda w: w.masked_fill(w < 2, -1e3),
        lambda w: torch.lerp(w, w**2, 0.3),
        lambda w: torch.addcmul(w, w, w, value=0.5), lambda w: torch.addcdiv(w, w, w + 1),
        lambda w: w.add(w, alpha=2),
        lambda w: (w > 2) & ~(w > 3) | (w == 1), lambda w: w.long() // 2, lambda w: w.int() / 2,
        lambda w: w.to(torch.uint8),
        lambda w: torch.div(w, 2, rounding_mode="trunc"), lambda w: w.round() + w.floor() + w.ceil() + w.sign(),
        lambda w: w.long() * 0.5 + True, lambda w: torch.tensor(2) * w.float(),
        lambda w: torch.tensor([0.1, 0.2])[1] * w,
        lambda w: w.detach() * w, lambda w: torch.nan_to_num(w.detach() / 0), lambda w: w.long().bitwise_and(3),
    )  # fmt: skip
    compared(Each(p, functions), p, rtol=1e-6)  # PyTorch rounds at `float`


def test_shapes():
    functions = (
        lambda w: w.view(3, 4).t(), lambda w: w.reshape(2, 6).flatten(),
        lambda w: w.view(2, 1, 6).squeeze(1).unsqueeze(0),
        lambda w: w.view(3, 4).permute(1, 0).contiguous(), lambda w: w[None].expand(3, -1), lambda w: w.repeat(2, 1),
        lambda w: torch.stack(w.chunk(5)[:2]), lambda w: torch.cat(w.split([5, 7])[::-1]),
        lambda w: w.view(3, 4).unbind(1)[2],
        lambda w: w[2:9:3], lambda w: w.view(3, 4)[..., 1], lambda w: w.view(3, 4).select(0, -1),
        lambda w: w.flip(0).roll(3),
        lambda w: w.view(3, 4).tril(), lambda w: w.view(3, 4).triu(1), lambda w: w.view(3, 4).diagonal(),
        lambda w: w.unfold(0, 4, 3), lambda w: F.pad(w, (1, -2), value=2.0),
        lambda w: F.pad(w.view(1, 3, 4), (2, 1), "reflect"),
        lambda w: F.pad(w.view(1, 1, 3, 4), (1, 1, 2, 1), "replicate"),
        lambda w: F.pad(w.view(1, 3, 4), (2, 1), "circular"),
        lambda w: F.pixel_shuffle(w.view(1, 4, 1, 3), 2), lambda w: F.pixel_unshuffle(w.view(1, 1, 2, 6), 2),
        lambda w: w.view(3, 4).movedim(0, 1), lambda w: w.view(3, 4).transpose(-1, -2).unflatten(0, (2, -1)),
        lambda w: w.repeat_interleave(2), lambda w: w.view(1, 6, 2).roll((1, 1), (1, 2)), lambda w: written(w),
        lambda w: torch.zeros_like(w) + torch.arange(12) * torch.ones(12) + torch.full((12,), 2.0) + w.new_zeros(12),
        lambda w: torch.linspace(0, 1, 12) * w, lambda w: torch.eye(3).double() @ w.view(3, 4),
        lambda w: torch.meshgrid(w, w)[1],
        lambda w: F.channel_shuffle(w.view(1, 4, 1, 3), 2), lambda w: w.view(4, 3).as_strided((2, 2), (3, 1), 1),
    )  # fmt: skip
    compared(Each(POINTS, functions), POINTS, rtol=1e-6)


def written(w):
    """Entries that are written in place, into a copy."""
    w = w.clone().view(3, 4)
    w[1] = 0
    w[:, 1:3] *= 2
    w.add_(1).relu_()
    return w


def test_reductions():
    ties = np.array([1.0, 3.0, 3.0, -2.0, -2.0, 0.0, 3.0, 5.0, 5.0, 5.0, 1.0, 1.0])
    functions = (
        lambda w: w.sum(), lambda w: w.view(3, 4).sum(1, keepdim=True), lambda w: w.view(3, 4).mean((0, 1)),
        lambda w: w.prod(),
        lambda w: w.var(), lambda w: w.view(3, 4).std(1, unbiased=False),
        lambda w: torch.cat(torch.var_mean(w.view(3, 4), 1)),
        lambda w: w.max(), lambda w: w.min(), lambda w: w.view(3, 4).amax(1), lambda w: w.view(3, 4).amin((0, 1)),
        lambda w: w.view(3, 4).max(1)[0], lambda w: w.view(3, 4).min(0).values, lambda w: w.view(3, 4).max(1)[1],
        lambda w: w.argmax(), lambda w: w.view(3, 4).argmin(1), lambda w: w.view(3, 4).any(1), lambda w: w.all(),
        lambda w: w.view(3, 4).logsumexp(1), lambda w: w.cumsum(0), lambda w: w.view(3, 4).cumprod(1),
        lambda w: w.logcumsumexp(0),
        lambda w: w.norm(), lambda w: w.view(3, 4).norm(dim=1, p=1), lambda w: w.view(3, 4).norm(dim=1, p=3),
        lambda w: torch.linalg.vector_norm(w, math.inf), lambda w: (w - 1).view(3, 4).std(0),
        lambda w: w.view(3, 4).median(1)[0],
    )  # fmt: skip
    compared(Each(ties, functions), ties)


def test_indexing_and_products():
    rows, mask = torch.tensor([2, 0, 2]), torch.arange(12) % 5 == 0
    functions = (
        lambda w: F.embedding(rows, w.view(3, 4)), lambda w: F.embedding(rows, w.view(3, 4), padding_idx=2),
        lambda w: w[rows],
        lambda w: w.view(3, 4)[:, rows], lambda w: w.view(3, 4)[rows, rows], lambda w: w.index_select(0, rows),
        lambda w: w.view(3, 4).gather(1, rows[:, None]),
        lambda w: torch.zeros(5).double().scatter(0, rows, w[:3] * 0 + 1),
        lambda w: w.scatter_add(0, rows, w[:3]), lambda w: w.index_add(0, rows, w[:3]), lambda w: w.topk(4)[0],
        lambda w: w.topk(4)[1],
        lambda w: w.index_put((rows,), w[:3], accumulate=True), lambda w: w.sort(descending=True)[0],
        lambda w: w.argsort(stable=True),
        lambda w: w.masked_fill(mask, 0.0), lambda w: F.one_hot(rows, 4) * w[:4], lambda w: torch.bucketize(w, w[:4]),
        lambda w: torch.einsum("i j, k j -> i k", w.view(3, 4), w.view(3, 4)), lambda w: torch.outer(w, w),
        lambda w: w @ w,
        lambda w: F.linear(w.view(3, 4), w.view(3, 4), w[:3]), lambda w: torch.bmm(w.view(2, 2, 3), w.view(2, 3, 2)),
        lambda w: torch.addmm(w[:3], w.view(3, 4), w.view(4, 3), beta=2, alpha=3), lambda w: w.view(3, 4) @ w[:4],
        lambda w: torch.baddbmm(w[:1], w.view(2, 2, 3), w.view(2, 3, 2)),
        lambda w: F.cosine_similarity(w.view(3, 4), w.view(3, 4) ** 2),
        lambda w: F.bilinear(w.view(3, 4), w.view(3, 4) ** 2, torch.arange(32.0).double().view(2, 4, 4), w[:2]),
        lambda w: torch.tensordot(w.view(3, 4), w.view(4, 3), ([0], [1])), lambda w: torch.take_along_dim(w, rows),
    )  # fmt: skip
    compared(Each(POINTS, functions), POINTS)


def space(*shape):
    return np.random.default_rng(1).normal(size=shape)


def test_convolutional_networks_with_pooling_of_ties():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(2, 4, 3, padding="same", dilation=2)
            self.grouped = nn.Conv2d(4, 8, (3, 2), stride=(2, 1), padding=(1, 0), groups=2)
            self.norms = nn.ModuleList([nn.BatchNorm2d(8), nn.GroupNorm(2, 8), nn.InstanceNorm2d(8, affine=True)])
            self.up = nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=1)
            self.line = nn.Conv1d(6, 3, 5, stride=2, padding=2, padding_mode="circular")
            self.back = nn.ConvTranspose1d(3, 2, 4, stride=3)

        def forward(self, x):
            x = F.relu(self.first(x))  # many zeros: ties in every window
            x = self.grouped(x)
            for norm in self.norms:
                x = norm(x)
            x = F.relu(x)
            pools = [
                F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2, ceil_mode=True), F.max_pool2d(x, 2, 1, dilation=2),
                F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
                F.avg_pool2d(x, 2, divisor_override=3), F.adaptive_avg_pool2d(x, (3, 2)),
                F.adaptive_max_pool2d(x, (2, 3)),
                F.unfold(x, 2, padding=1), F.lp_pool2d(x, 2, 2),
            ]  # fmt: skip
            y = self.up(x)
            z = self.back(self.line(y.flatten(2)))
            return torch.cat([y.flatten(1), z.flatten(1), *(p.flatten(1) for p in pools)], 1)

    torch.manual_seed(0)
    net = Net()
    net.norms[0].running_mean += 0.5
    net.norms[0].running_var += 0.5
    compared(net, space(2, 7, 8))


def test_images_resized_and_read_at_points():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.as_tensor(space(1, 2, 5, 6)))

        def forward(self, x):
            x = x * self.w
            grid = torch.tanh(x[:, :, :3, :4].permute(0, 2, 3, 1))
            theta = x[:, 0, 0].view(-1, 2, 3)
            found = [
                F.interpolate(x, size=(10, 4)), F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=1.7),
                F.interpolate(x, size=(10, 9), mode="bilinear"), F.interpolate(x, scale_factor=1.5, mode="bilinear"),
                F.interpolate(x, size=(9, 4), mode="bilinear", align_corners=True),
                F.interpolate(x, (8, 3), mode="bicubic"),
                F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True),
                F.interpolate(x, (7, 8), mode="nearest-exact"),
                F.interpolate(x, size=(3, 4), mode="bicubic", antialias=True),
                F.interpolate(x[:, 0], 9, mode="linear"),
                F.grid_sample(x, grid, align_corners=False), F.grid_sample(x, grid, "nearest", "border", False),
                F.grid_sample(x, grid, "bicubic", "reflection", True), F.affine_grid(theta, (len(x), 1, 4, 3), False),
            ]  # fmt: skip
            return torch.cat([a.flatten(1) for a in found], 1)

    compared(Net(), space(2, 5, 6))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks(kind):
    torch.manual_seed(0)
    network = compared(kind(3, 4, num_layers=2, bidirectional=True, batch_first=True), space(5, 3), output=0)
    assert any("the output is 0" in note for note in network.notes)


def test_attention_with_masks_causal_grouped_and_masked_whole():
    """The mask comes in its place or by its name, of truths or of numbers."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(8, 24)
            self.register_buffer("mask", torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 1]]).bool())

        def forward(self, x):
            q, k, v = (a.unflatten(-1, (4, 2)).transpose(1, 2) for a in self.qkv(x).chunk(3, -1))
            attend = F.scaled_dot_product_attention
            found = [
                attend(q, k, v), attend(q, k, v, self.mask), attend(q, k, v, attn_mask=self.mask * 1.5),
                attend(q, k, v, scale=0.3),
                attend(q, k, v, is_causal=True), attend(q[:, :, :3], k, v, None, 0.0, True),
                attend(q, k[:, :2], v[:, :2], enable_gqa=True),
            ]  # fmt: skip
            return torch.cat([a.flatten(1) for a in found], 1)

    torch.manual_seed(0)
    compared(Net(), space(4, 8))


def test_multihead_attention_of_three_inputs_and_by_name():
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2, batch_first=True)
    x = space(4, 8)
    compared(module, (x, x + 1, x - 1), output=0)
    mask = np.array([False, False, True, False])
    example = {"query": x, "value": x, "key": x, "key_padding_mask": mask}
    network = Network.from_torch(module.double().eval(), example, output=1)
    assert np.all(np.asarray(network(example))[..., 2] == 0)
    with pytest.raises(ValueError, match="takes the inputs query, value, key, key_padding_mask"):
        network({"query": x})


def test_transformer_encoder_frozen_or_not():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu", norm_first=True)
    compared(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), space(4, 8))
    head = nn.Sequential(layer.requires_grad_(False), nn.Flatten(), nn.Linear(32, 3))
    network = compared(head, space(4, 8))  # a frozen layer would take PyTorch's fast path
    assert sorted(network.params) == ["2.bias", "2.weight"]
    assert "0.linear1.weight" in network.buffers


class Words(nn.Module):
    """A causal language model with tied weights, and what users write: dictionaries, keywords, no_grad, chunk."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight
        self.mix = nn.Linear(4, 12)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, tokens, *, mask=None):
        h = self.embedding(tokens)
        q, k, v = self.mix(h).chunk(3, -1)
        scores = q @ k.transpose(-1, -2)
        length = tokens.shape[1]
        scores = scores.masked_fill(torch.ones(length, length).tril() == 0, float("-inf"))
        h = h + scores.softmax(-1) @ v
        if mask is not None:
            h = h * mask[..., None]
        with torch.no_grad():
            size = h.norm(dim=-1, keepdim=True)
        return {"hidden": h, "logits": self.head(h / size.clamp(min=0.1)), "more": (h, tokens)}


def test_tokens_tied_weights_and_dictionaries():
    torch.manual_seed(0)
    tokens = np.array([1, 5, 2, 2])
    network = compared(Words(), tokens, output="logits")
    assert sorted(network.params) == ["embedding.weight", "mix.bias", "mix.weight"]
    notes = " ".join(network.notes)
    assert "tied parameters are one, named embedding.weight: head.weight." in notes
    assert "left out: unused" in notes
    assert "the output is logits, of hidden, logits, more.0, more.1" in notes
    example = {"tokens": tokens, "mask": np.array([1.0, 1.0, 0.0, 1.0])}
    module = Words().double()
    network = Network.from_torch(module, example)  # "logits" by itself
    assert network.notes[0] == "the module was in training mode and is read in eval mode."
    assert module.training
    assert module.mix.training
    given = {name: torch.as_tensor(a[None]) for name, a in example.items()}
    close(network(example), module(**given)["logits"][0].detach().numpy(), 1e-9)
    with pytest.raises(ValueError, match="choose one with output=, of 0, 1.0, 1.1"):
        Network.from_torch(nn.LSTM(3, 4, batch_first=True), space(5, 3))
    with pytest.raises(ValueError, match="must be one of hidden, logits, more.0, more.1, got 'other'"):
        Network.from_torch(module, example, output="other")
    with pytest.raises(ValueError, match=r"takes examples of the shape \(4,\)"):
        network({"tokens": np.arange(5), "mask": np.ones(5)})
    with pytest.raises(TypeError, match="takes integers"):
        network({"tokens": np.ones(4), "mask": np.ones(4)})


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.middle = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.up, self.norm, self.end = nn.ConvTranspose2d(8, 4, 2, 2), nn.GroupNorm(2, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = F.silu(self.down(x))
        b = F.silu(self.middle(F.max_pool2d(a, 2)))
        return self.end(self.norm(torch.cat([a, self.up(b)], 1)))


def test_a_u_net_in_numbers_of_16_bits_is_raised():
    torch.manual_seed(0)
    module = Unet().to(torch.bfloat16)
    with jax.enable_x64(False):
        network = Network.from_torch(module, torch.randn(1, 8, 8, dtype=torch.bfloat16))
    assert all(p.dtype == torch.bfloat16 for p in module.parameters())
    assert network.params["end.weight"].dtype == np.float32
    assert "type bfloat16 are raised to float32" in " ".join(network.notes)
    x = space(1, 8, 8).astype(np.float32)
    expected = module.float()(torch.as_tensor(x[None]))[0].detach().numpy()
    close(network(x), expected, 1e-4)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_a_module_that_was_trained_and_then_halved(kind):
    """Its parameters still have the slopes of the last step, of 16 bits too."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    module(torch.ones(5, 3)).sum().backward()
    module.to(kind)
    slopes = [p.grad for p in module.parameters()]
    network = Network.from_torch(module, np.ones(3, np.float32))
    assert network(np.ones(3, np.float32)).shape == (2,)
    assert all(p.dtype == kind and p.grad is slope for p, slope in zip(module.parameters(), slopes, strict=True))


class Of(nn.Module):
    """One layer and a function after it."""

    def __init__(self, function):
        super().__init__()
        self.layer, self.function = nn.Linear(3, 3), function

    def forward(self, x):
        return self.function(self.layer(x))


def branched(x):
    return x if x.sum() > 0 else -x


REFUSED = {
    "torch.where or torch.cond": branched,
    r"not supported: aten::linalg_eigvalsh \(2 times\)": lambda x: (
        torch.linalg.eigvalsh(x[:, :, None] * x[:, None]) + torch.linalg.eigvalsh(x[:, None] * x[:, :, None])
    ),
    "changes with the other examples in its batch": lambda x: x - x.mean(0),
    "one output per example": lambda x: x.mean(0),
    "draws random numbers in eval mode too: give it training=self.training": F.dropout,
    "complex numbers": lambda x: torch.fft.fft(x).abs(),
    "could not be called on a batch of one example of shape \\(3,\\)": lambda x: x @ x,
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_refused_is_one_sentence(sentence):
    with pytest.raises(ValueError, match=sentence):
        Network.from_torch(Of(REFUSED[sentence]), np.ones(3))


def test_an_argument_that_an_operator_does_not_know_is_refused_unless_it_changes_nothing():
    schema = [("self", False, None), ("mask", True, None), ("device", True, None)]
    assert bound("f", lambda self: self, schema, (1, None), {"device": "cpu"}) == {"self": 1}
    for args, kwargs in (((1, 2), {}), ((1,), {"mask": 2})):
        with pytest.raises(NotSupported, match="f with mask=2"):
            bound("f", lambda self: self, schema, args, kwargs)
    assert bound("f", lambda self, mask=0: self, schema, (1, 2), {}) == {"self": 1, "mask": 2}


def test_a_recurrent_network_with_time_first_is_refused():
    with pytest.raises(ValueError, match="batch_first=True"):
        Network.from_torch(nn.RNN(3, 4), space(5, 3), output=0)


def test_modules_that_do_something_else_for_one_example():
    """`squeeze` takes a batch of one for no batch; the state of a recurrent layer has its batch in the middle."""
    torch.manual_seed(0)
    module = Of(lambda x: torch.tanh(x).squeeze()).double()
    network = Network.from_torch(module, np.ones(3))
    close(network(np.ones(3)), module(torch.ones(2, 3).double())[0].detach().numpy(), 1e-9)
    module = nn.GRU(3, 4, num_layers=2, batch_first=True).double()
    x = space(5, 3)
    network = Network.from_torch(module, x, output="1")
    close(network(x), module(torch.as_tensor(x[None]))[1][:, 0].detach().numpy(), 1e-9)


def test_standardised_weights():
    def standardised(w):
        return F.batch_norm(w.reshape(1, 3, 4), None, None, weight=w[:3], training=True, eps=1e-3)

    compared(Each(POINTS, [standardised]), POINTS)


def test_one_architecture_read_twice_is_one_compiled_function():
    first, second = (Network.from_torch(nn.Linear(3, 2), np.ones(3)) for _ in range(2))
    other = Network.from_torch(Of(torch.tanh), np.ones(3))
    assert first.apply == second.apply
    assert first.apply != other.apply


def test_batch_normalisation_by_the_statistics_of_a_batch():
    """As the module has it in training mode, but for what it drops at random."""
    torch.manual_seed(0)
    parts = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3), nn.BatchNorm1d(3)
    module = nn.Sequential(*parts).double()
    network = Network.from_torch(module, space(1, 4, 4))
    x = space(6, 1, 4, 4)
    ours = network.recomputed(network.params, network.buffers, x)
    close(ours, module.train()(torch.as_tensor(x)).detach().numpy(), 1e-9)
    assert Network.from_torch(nn.Linear(3, 2), np.ones(3)).recomputed is None
