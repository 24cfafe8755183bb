"""The words, names and states attribute values are drawn from."""

from __future__ import annotations


def listed(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


FIRST_NAMES = listed(
    "Ana Ben Carla Dario Elif Frida Goran Hana Ivo Julia Karim Lena Marco Nadia Oskar Petra Quentin Rosa "
    "Stefan Tove Umar Vera Wanda Ximena Yara Zoltan Aisha Boris Chloe Derya Emil Fatou Giulia Henrik Ines "
    "Jan Katya Liam"
)
LAST_NAMES = listed(
    "Abel Bakker Conti Dubois Ekberg Fischer Garcia Haddad Ivanov Jensen Kowalski Lopez Moreau Novak Okafor "
    "Pereira Quist Rossi Silva Tanaka Ueda Vogel Weber Xu Yilmaz Zeman Andersen Brandt Costa Dias Engel "
    "Faber Greco"
)
STREETS = listed("Oak Mill Station Church Park Harbour Garden Hill River Market School Bridge")
TOWNS = [
    start + end for start in listed("Nor Wes Eas Sud Lim Gar Hol Mar Ber Tal") for end in ("ton", "berg", "ville", "a")
]
TEXT = listed(
    "the order was late and customer asked for a refund please check again before shipping new parts needed "
    "urgent call back tomorrow morning no issue found standard procedure applied see attached file"
)
STATES: tuple[tuple[str | int, ...], ...] = (
    ("new", "open", "closed"),
    ("A", "I"),
    ("active", "inactive", "pending", "blocked"),
    (0, 1, 2),
    (1, 2, 3, 4, 5),
    ("N", "P", "S", "X"),
    ("small", "medium", "large"),
    ("draft", "sent", "paid", "overdue", "cancelled"),
    ("M", "F"),
    (10, 20, 30, 90),
    ("web", "phone", "mail", "partner", "store"),
)
FLAGS: tuple[tuple[str | int, ...], ...] = ((0, 1), ("Y", "N"), ("true", "false"), ("J", "N"), (1, 0), ("T", "F"))
