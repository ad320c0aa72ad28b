"""Short business papers with ten facts each, and the schema of those facts; words and kinds drawn from a seed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from bench.tickets import GOODS, NAMES

if TYPE_CHECKING:
    from random import Random

CITIES = ("Verona", "Kassel", "Leeds", "Lyon", "Porto", "Gdansk", "Turku", "Ghent", "Graz", "Malmo")
STREETS = ("Mill Lane", "Station Road", "Church Street", "Harbour Way", "Oak Avenue", "Market Square")
FIRST = ("Anna", "Ben", "Clara", "David", "Emma", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kofi", "Lena")
WAYS = ("bank transfer", "credit card", "cash", "cheque")
STATES = ("open", "paid", "overdue", "cancelled")
FIELDS: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
    ("number", ("number", "reference", "file_no", "case_id"), {"type": "integer"}),
    ("person", ("customer", "client_name", "contact", "buyer"), {"type": "string", "maxLength": 40}),
    ("city", ("city", "town", "place_of_delivery"), {"type": "string", "maxLength": 30}),
    ("street", ("street", "address_line", "road"), {"type": "string", "maxLength": 40}),
    ("goods", ("item", "article", "goods_sold"), {"type": "string", "maxLength": 40}),
    ("count", ("quantity", "pieces", "units_ordered"), {"type": "integer"}),
    ("price", ("unit_price_eur", "price_each", "euros_per_piece"), {"type": "number"}),
    ("way", ("payment_method", "paid_by", "means_of_payment"), {"enum": list(WAYS)}),
    ("state", ("status", "payment_state", "current_state"), {"enum": list(STATES)}),
    ("gift", ("is_gift", "gift_wrapped", "as_a_present"), {"type": "boolean"}),
)


@frozen
class Kind:
    """A kind of paper: what its ten fields are called, in the order in which they are asked for."""

    fields: tuple[tuple[str, str], ...]

    @classmethod
    def drawn(cls, draw: Random) -> Kind:
        """One of some thousand millions, so that no kind comes twice."""
        named = [(fact, draw.choice(names)) for fact, names, _ in FIELDS]
        draw.shuffle(named)
        return cls(tuple(named))

    @property
    def schema(self) -> dict[str, Any]:
        types = {fact: type_ for fact, _, type_ in FIELDS}
        return {
            "type": "object",
            "properties": {name: types[fact] for fact, name in self.fields},
            "required": [name for _, name in self.fields],
            "additionalProperties": False,
        }

    @property
    def question(self) -> str:
        return f"Give the following facts of the paper below as JSON: {', '.join(name for _, name in self.fields)}."


def paper(draw: Random) -> tuple[str, dict[str, Any]]:
    """The text of a paper, and its facts by their plain names."""
    facts = {
        "number": draw.randint(10_000, 99_999),
        "person": f"{draw.choice(FIRST)} {draw.choice(NAMES)}",
        "city": draw.choice(CITIES),
        "street": f"{draw.randint(2, 90)} {draw.choice(STREETS)}",
        "goods": draw.choice(GOODS),
        "count": draw.randint(2, 60),
        "price": draw.randint(500, 30_000) / 100,
        "way": draw.choice(WAYS),
        "state": draw.choice(STATES),
        "gift": draw.random() < 0.5,
    }
    wrapped = "It is a present and was wrapped as one." if facts["gift"] else "It is not a present."
    text = (
        f"Paper no. {facts['number']}. {facts['person']} of {facts['street']}, {facts['city']}, ordered "
        f"{facts['count']} pieces of the {facts['goods']} at {facts['price']:.2f} euros each. {wrapped} "
        f"To be settled by {facts['way']}; as of today the bill is {facts['state']}."
    )
    return text, facts
