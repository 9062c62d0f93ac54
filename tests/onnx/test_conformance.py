"""ONNX's own tests: every operator in every version that they have, with values that ONNX gives.

Each runs as one compiled program, so that whatever follows from shapes is seen to be known while tracing; what needs
the values of its inputs for that (NonZero of an input, a number of steps) runs operator by operator.
"""

import jax
import numpy as np
import pytest

import corollary

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'corollary[onnx]'")

GROUPS = 16

# not counted: what no network under audit does
LEFT_OUT = {
    "random numbers: no two runs agree": lambda case: case.operators() & {"Bernoulli", "RandomUniformLike"},
    "optimisers and gradients as operators": lambda case: "preview.training" in domains(case),
    "training mode: networks are looked at in inference mode": lambda case: "training" in case.name,
    "the number of values depends on the values": lambda case: "Unique" in case.operators(),
    "bits of one type read as another": lambda case: "BitCast" in case.operators(),
    "trees have no gradient": lambda case: any(op.startswith("TreeEnsemble") for op in case.operators()),
    "preview operators, whose definition may change": lambda case: (
        case.operators() & {"FlexAttention", "TensorScatter"}
    ),
    "places of maxima as values": lambda case: "MaxUnpool" in case.operators(),
}

# counted, and refused in a sentence: every name with its reason
UNSUPPORTED = {
    f"test_tfidfvectorizer_tf_{name}": "n-grams of text"
    for name in (
        "batch_onlybigrams_skip0",
        "batch_onlybigrams_skip5",
        "batch_uniandbigrams_skip5",
        "only_bigrams_skip0",
        "onlybigrams_levelempty",
        "onlybigrams_skip5",
        "uniandbigrams_skip5",
    )
}

# where ONNX's test says something else than ONNX's definition, and onnxruntime holds with the definition
DISPUTED = {
    f"test_resize_downsample_scales_{how}_align_corners": "the test takes the length before it is rounded down"
    for how in ("linear", "cubic")
}

# rounding, relative to the largest entry, of sums in single precision; halves are computed in it but expected in theirs
ROUNDING = 1e-6
RELATIVE = {onnx.TensorProto.FLOAT16: 2.0**-9, onnx.TensorProto.BFLOAT16: 2.0**-6}


def domains(case) -> str:
    return " ".join(node.domain for node in case.model.graph.node)


def counted(cases) -> list:
    left_out = [*LEFT_OUT.values(), lambda case: case.name in DISPUTED]
    return [case for case in cases if not any(reason(case) for reason in left_out)]


def outputs(case, inputs):
    """The outputs of a compiled program, or of one operator after another where values are needed while tracing."""
    double = any(getattr(value, "dtype", None) == np.float64 for value in inputs.values())
    with jax.enable_x64(double):
        moving = {k: v for k, v in inputs.items() if hasattr(v, "dtype") and v.dtype.kind == "f"}
        fixed = {k: v for k, v in inputs.items() if k not in moving}
        try:
            return jax.jit(lambda moving: corollary.onnx.run(case.model, {**fixed, **moving}))(moving)
        except (ValueError, TypeError):
            return corollary.onnx.run(case.model, inputs)


def wrong(case) -> str:
    """What is wrong with the outputs; nothing if they are right."""
    for inputs, expected in case.pairs:
        for info, ours, theirs in zip(case.model.graph.output, outputs(case, inputs), expected, strict=True):
            rtol = RELATIVE.get(info.type.tensor_type.elem_type, case.rtol)
            pairs = zip(ours, theirs, strict=True) if isinstance(theirs, list) else [(ours, theirs)]
            for a, b in pairs:
                a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
                largest = np.abs(b[np.isfinite(b)]).max(initial=0)
                if a.shape != b.shape or not np.allclose(a, b, rtol, ROUNDING * largest + 1e-7, equal_nan=True):
                    return f"{case.name}: {info.name} is {a.shape} {a.ravel()[:8]}, not {b.shape} {b.ravel()[:8]}"
    return ""


@pytest.mark.parametrize("group", range(GROUPS))
def test_no_wrong_value_and_nothing_refused_but_what_is_listed(cases, group):
    failures, refused = [], set()
    for case in counted(cases)[group::GROUPS]:
        try:
            failures += [text] if (text := wrong(case)) else []
        except ValueError as error:
            refused.add(case.name)
            if case.name not in UNSUPPORTED or "not supported" not in str(error):
                failures.append(f"{case.name}: {error}")
    assert not failures, "\n".join(failures)
    # what is listed and passes is to be taken off the list
    assert refused == UNSUPPORTED.keys() & {case.name for case in counted(cases)[group::GROUPS]}


def test_the_share_that_passes(cases):
    names = {case.name for case in counted(cases)}
    assert UNSUPPORTED.keys() <= names
    twins = {name for name in names if "_expanded" in name}
    assert len(names - twins) > 800  # or something was lost on the way here
    assert len(twins) > 300
    for group, share in ((names - twins, 0.95), (twins, 0.9)):
        assert len(group - UNSUPPORTED.keys()) >= share * len(group)


@pytest.mark.parametrize("name", DISPUTED)
def test_the_definition_where_a_test_disagrees_with_it(cases, name):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'corollary[onnx]'")
    case = next(case for case in cases if case.name == name)
    assert wrong(case)
    ((inputs, _),) = case.pairs
    session = runtime.InferenceSession(case.model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(outputs(case, inputs)[0], session.run(None, inputs)[0], rtol=1e-5)


def test_every_reason_to_leave_a_test_out_has_one(cases):
    for reason, holds in LEFT_OUT.items():
        assert any(holds(case) for case in cases), reason


def test_what_is_left_out_is_refused_in_a_sentence_or_right(cases):
    """Nothing of it gives wrong values either."""
    failures = []
    for case in cases:
        if any(reason(case) for reason in LEFT_OUT.values()) and "Bernoulli" not in case.operators():
            try:
                failures += [text] if (text := wrong(case)) else []
            except ValueError as error:
                failures += [case.name] if "not supported" not in str(error) else []
    assert not failures, "\n".join(failures)
