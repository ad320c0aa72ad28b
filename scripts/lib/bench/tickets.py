"""Messages of customers, each about one of eight matters, drawn from a seed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from random import Random

NAMES = ("Miller", "Rossi", "Tanaka", "Okafor", "Novak", "Garcia", "Haddad", "Jensen", "Dubois", "Kowalski")
GOODS = ("office chair", "coffee machine", "garden hose", "desk lamp", "rain jacket", "bicycle pump", "water filter")
MATTERS: dict[str, tuple[str, ...]] = {
    "delivery": (
        "My {goods} should have been here {days} days ago. Where is it?",
        "The tracking page of order {order} has not changed for {days} days.",
        "The driver left the {goods} in the rain, {days} houses further down the road.",
    ),
    "refund": (
        "I sent the {goods} back {days} days ago and still have no money.",
        "Please pay me back the {euros} euros of order {order}.",
        "Half of the {euros} euros came back. Where is the rest?",
    ),
    "defect": (
        "The {goods} stopped working after {days} days.",
        "One part of the {goods} was broken when I opened the box.",
        "My {goods} makes a loud noise and smells of smoke.",
    ),
    "invoice": (
        "I need the invoice of order {order} with our company's name on it.",
        "The invoice says {euros} euros, but the shop said less.",
        "Could you send the receipt for the {goods} once more? I have lost it.",
    ),
    "account": (
        "I cannot log in any more, and no mail comes to set a new password.",
        "Please change the mail address of my account, I have moved {days} days ago.",
        "Somebody else's orders are shown on my page, such as {order}.",
    ),
    "product": (
        "Does the {goods} fit into a bag of {days} litres?",
        "Is there a {goods} in green, too?",
        "Which spare parts are there for the {goods}?",
    ),
    "cancel": (
        "Please cancel order {order}, I do not need the {goods} any more.",
        "I ordered two by mistake: take one {goods} off order {order}.",
        "Stop the order of {days} days ago before it is sent.",
    ),
    "praise": (
        "The {goods} came a day early and is perfect. Thank you!",
        "Your colleague on the telephone was so patient with me, please tell her.",
        "Best {goods} I ever had, and for {euros} euros!",
    ),
}
LABELS = tuple(MATTERS)


@frozen
class Ticket:
    """`label`: the matter that the text was made for."""

    text: str
    label: str


def ticket(draw: Random) -> Ticket:
    """A greeting, what it is about, and who writes."""
    label = draw.choice(LABELS)
    facts = {
        "goods": draw.choice(GOODS),
        "order": draw.randint(10_000, 99_999),
        "days": draw.randint(3, 28),
        "euros": draw.randint(12, 400),
    }
    about = draw.choice(MATTERS[label]).format(**facts)
    greeting = draw.choice(("Hello,", "Dear team,", "Good morning.", "To whom it may concern:"))
    return Ticket(f"{greeting} {about} Regards, {draw.choice(NAMES)}", label)
