"""ONNX's own tests: every operator in every version that they have, with values that ONNX gives.

Many run side by side in one compiled program, so that whatever follows from shapes is seen to be known while tracing;
what needs the values of its inputs for that (NonZero of an input, a number of steps) runs operator by operator.
"""

import jax
import jax.numpy as jnp
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


def has_double(inputs) -> bool:
    return any(getattr(value, "dtype", None) == np.float64 for value in inputs.values())


def compiled(cases) -> dict:
    """The outputs by name of the case and number of its inputs, of those that can be traced: of one program for all."""
    asked = {(case.name, i): (case, inputs) for case in cases for i, (inputs, _) in enumerate(case.pairs)}
    found = {}
    for double in (False, True):
        chosen = {place: pair for place, pair in asked.items() if has_double(pair[1]) == double}
        moving = {
            place: {k: v for k, v in inputs.items() if hasattr(v, "dtype") and v.dtype.kind == "f"}
            for place, (_, inputs) in chosen.items()
        }

        def program(moving, chosen=chosen):
            outputs = {}
            for place, (case, inputs) in chosen.items():
                try:
                    values = corollary.onnx.run(case.model, {**inputs, **moving[place]})
                    outputs[place] = jax.tree.map(jnp.asarray, values)  # text is refused here
                except (ValueError, TypeError):
                    continue
            return outputs

        with jax.enable_x64(double):
            found |= jax.jit(program)(moving)
    return found


def wrong(case, found) -> str:
    """What is wrong with the outputs; nothing if they are right. What was not `found` is run by itself."""
    for i, (inputs, expected) in enumerate(case.pairs):
        for info, ours, theirs in zip(case.model.graph.output, outputs(case, i, inputs, found), expected, strict=True):
            rtol = RELATIVE.get(info.type.tensor_type.elem_type, case.rtol)
            pairs = zip(ours, theirs, strict=True) if isinstance(theirs, list) else [(ours, theirs)]
            for a, b in pairs:
                a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
                largest = np.abs(b[np.isfinite(b)]).max(initial=0)
                if a.shape != b.shape or not np.allclose(a, b, rtol, ROUNDING * largest + 1e-7, equal_nan=True):
                    return f"{case.name}: {info.name} is {a.shape} {a.ravel()[:8]}, not {b.shape} {b.ravel()[:8]}"
    return ""


def outputs(case, i, inputs, found):
    if (case.name, i) in found:
        return found[case.name, i]
    with jax.enable_x64(has_double(inputs)):
        return corollary.onnx.run(case.model, inputs)


@pytest.mark.parametrize("group", range(GROUPS))
def test_no_wrong_value_and_nothing_refused_but_what_is_listed(cases, group):
    failures, refused = [], set()
    chosen = counted(cases)[group::GROUPS]
    found = compiled(chosen)
    assert len(found) > len(chosen) / 2  # or tracing fails where it did not
    for case in chosen:
        try:
            failures += [text] if (text := wrong(case, found)) else []
        except ValueError as error:
            refused.add(case.name)
            if case.name not in UNSUPPORTED or "not supported" not in str(error):
                failures.append(f"{case.name}: {error}")
    assert not failures, "\n".join(failures)
    # what is listed and passes is to be taken off the list
    assert refused == UNSUPPORTED.keys() & {case.name for case in chosen}


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
    found = compiled([case])
    assert wrong(case, found)
    ((inputs, _),) = case.pairs
    session = runtime.InferenceSession(case.model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(outputs(case, 0, inputs, found)[0], session.run(None, inputs)[0], rtol=1e-5)


def test_every_reason_to_leave_a_test_out_has_one(cases):
    for reason, holds in LEFT_OUT.items():
        assert any(holds(case) for case in cases), reason


def test_what_is_left_out_is_refused_in_a_sentence_or_right(cases):
    """Nothing of it gives wrong values either."""
    chosen = [case for case in cases if any(reason(case) for reason in LEFT_OUT.values())]
    chosen = [case for case in chosen if "Bernoulli" not in case.operators()]
    failures, found = [], compiled(chosen)
    for case in chosen:
        try:
            failures += [text] if (text := wrong(case, found)) else []
        except ValueError as error:
            failures += [case.name] if "not supported" not in str(error) else []
    assert not failures, "\n".join(failures)
