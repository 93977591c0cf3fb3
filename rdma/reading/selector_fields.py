"""Read label selectors (metav1.LabelSelector) strictly."""

from typing import Final

from rdma.reading.fields import LABEL_KEY, LABEL_VALUE, Fields
from rdma.selectors import Operator, Requirement, Selector

_VALUED: Final = (Operator.IN, Operator.NOT_IN)


def read_selector(parent: Fields, name: str) -> Selector | None:
    """Return the label selector in the field ``name``, or None if the field is absent. Raises
    PolicyError.
    """
    fields = parent.inner(name)
    if fields is None:
        return None
    labels = fields.labels("matchLabels")
    requirements = [Requirement(key, Operator.IN, (labels[key],)) for key in sorted(labels)]
    requirements += [_requirement(item) for item in fields.items("matchExpressions")]
    fields.check_all_read()
    return Selector(tuple(requirements))


def _requirement(item: Fields) -> Requirement:
    key = item.required_text("key", LABEL_KEY)
    operator = Operator(item.choice("operator", tuple(Operator), None))
    values = tuple(
        item.checked_text(f"values[{index}]", value, LABEL_VALUE)
        for index, value in enumerate(item.sequence("values"))
    )
    if (operator in _VALUED) != bool(values):
        problem = "needs values" if operator in _VALUED else "takes no values"
        item.fail("values", f"{operator} {problem}", "give what the operator requires")
    item.check_all_read()
    return Requirement(key, operator, tuple(sorted(set(values))))
