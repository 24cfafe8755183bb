"""A company's handbook: what its teams do, statements about figures, a superseded page, and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from ktx_cli.jobs.demo.people import FIRST_NAMES, LAST_NAMES, Dice
from ktx_cli.jobs.proof.company.conventions import Convention, SettledBy
from ktx_cli.jobs.proof.company.core import company_name

FOLDER: Final = "handbook"
_LAST_REVIEW: Final = date(2025, 5, 30)


@dataclass(frozen=True, slots=True)
class _Page:
    """A handbook page. `tables`: the concepts whose figures it is about."""

    file: str
    title: str
    text: str
    tables: tuple[str, ...] = ()


_PAGES: Final = (
    _Page(
        "customers.md",
        "Customers",
        """\
Accounts are opened by the sales team when a company signs its first order form. A key account has one contact in sales
and one in support; the others share a mailbox.

Names and industries are typed in by hand and checked once a quarter. Ask before you rename an account: letters to the
customer use the name as it is.""",
        ("accounts",),
    ),
    _Page(
        "users.md",
        "Users of our product",
        """\
A person becomes a user by accepting an invitation. Administrators can invite others, editors and viewers cannot.

The mail address is the name under which somebody signs in. It is personal data and does not belong in reports.""",
        ("contacts",),
    ),
    _Page(
        "products.md",
        "Products",
        """\
The catalog is kept by the product team. New products are planned in spring and autumn, and announced two weeks before
they can be ordered. List prices are reviewed twice a year; the price history keeps the old ones.""",
        ("products",),
    ),
    _Page(
        "revenue.md",
        "Orders and revenue",
        """\
Orders come from the website, the app and by phone. Phone orders are typed in by the sales team on the same day. An
order has one line for each product.

Revenue is the first figure of the weekly meeting. Finance presents it, and sales comments on large changes.""",
        ("orders", "order_items"),
    ),
    _Page(
        "returns.md",
        "Returns and refunds",
        """\
Customers can send products back within thirty days. The warehouse inspects what comes in, and finance refunds it within
a week. Reasons are chosen from a short list; `other` should stay below ten percent.""",
        ("returns",),
    ),
    _Page(
        "payments.md",
        "Payments",
        """\
Stores pass payments on through our payment provider, who reports them every night. Cards are the most common way to
pay. Questions about single payments go to the treasury, with the number of the payment.""",
        ("payments",),
    ),
    _Page(
        "subscriptions.md",
        "Subscriptions",
        """\
A subscription is for one plan and a number of seats. Its fee is billed every month. Customers change plans through
their contact in sales; the change takes effect on the first day of the next month.""",
        ("subscriptions",),
    ),
    _Page(
        "invoicing.md",
        "Invoicing",
        """\
Invoices are written on the first working day of a month and sent by mail. Customers have thirty days to pay. Reminders
are sent after two and after four weeks, and the treasury calls after six.""",
        ("invoices",),
    ),
    _Page(
        "usage.md",
        "Usage",
        """\
The product measures usage in units and sends the readings once a day. Devices that are offline send them when they are
back. Units are explained on the price list.""",
        ("usage_records",),
    ),
    _Page(
        "deals.md",
        "Deals",
        """\
The sales team opens a deal after the first meeting. Every deal has one owner. The value of a deal is the owner's best
estimate, and is corrected when the offer goes out.""",
        ("opportunities",),
    ),
    _Page(
        "leads.md",
        "Leads",
        """\
Leads come from forms, fairs and partners. Marketing scores them from 1 to 100 and passes on those above 60. Sales has
two working days to call.""",
        ("leads",),
    ),
    _Page(
        "support.md",
        "Support",
        """\
Support answers tickets on working days from eight to six. The topic is chosen by the customer and can be corrected.
After a ticket is closed, the customer may rate it from 1 to 5.""",
        ("tickets",),
    ),
    _Page(
        "website.md",
        "The website",
        """\
A visit ends after thirty minutes without a click. Visits are recorded for people who are signed in, together with the
device. The web team looks at slow pages every Monday.""",
        ("sessions",),
    ),
    _Page(
        "people.md",
        "People",
        """\
Everybody has one manager and belongs to one department. The people team enters new colleagues before their first day.
Birthdays are not recorded.""",
        ("employees",),
    ),
    _Page(
        "expenses.md",
        "Expenses",
        """\
Claims are handed in with a photo of the receipt. Managers look at them once a week. Meals are paid up to a limit that
depends on the city; the list is in the travel tool.""",
        ("expenses",),
    ),
    _Page(
        "shipping.md",
        "Shipping",
        """\
Parcels leave from the warehouse that is closest to the customer. The carrier is chosen by weight. Freight is billed by
the carrier at the end of the month.""",
        ("shipments",),
    ),
    _Page(
        "purchasing.md",
        "Purchasing",
        """\
Purchase orders above a thousand euros need a second signature. Suppliers are rated once a year for quality and for
keeping their dates.""",
        ("purchase_orders",),
    ),
    _Page(
        "marketing.md",
        "Marketing",
        """\
Campaigns are planned by quarter. The platforms report clicks and costs of ads every night. A campaign that costs more
than planned is stopped by hand.""",
        ("ad_spend",),
    ),
    _Page(
        "planning.md",
        "Planning and budgets",
        """\
Departments hand in their budgets two months before the fiscal year begins. Finance merges them and presents the result
to the board. Budgets are compared with the ledger every month.""",
        ("budgets",),
    ),
    _Page(
        "onboarding.md",
        "Your first week with our data",
        """\
Ask the data team for access to the warehouse; reading is enough. Begin with the [glossary](glossary.md), then read the
page of your team. Queries that you want to keep belong in the folder `queries`.

When you are not sure how a figure is counted, ask the owner of the page before you publish it.""",
    ),
    _Page(
        "data-platform.md",
        "The data platform",
        """\
The warehouse is loaded every night between one and four. A table that fails is loaded again at noon. Rows can come in
late: devices and partners send what they have when they are online.

The dbt project builds on the tables as they are loaded. Its models are reviewed by two people.""",
    ),
    _Page(
        "glossary.md",
        "Glossary",
        """\
- **Order**: what a customer buys at one time.
- **Deal**: what sales hopes to sell.
- **Lead**: somebody who asked about us.
- **Claim**: what a colleague paid for us and wants back.
- **Visit**: what one person does on our site without a long break.""",
    ),
    _Page(
        "reporting.md",
        "Reports and meetings",
        """\
The weekly meeting looks at revenue, new customers, tickets and visits. The monthly report adds invoices, payments,
expenses and freight. Both are made by finance from the warehouse.""",
    ),
    _Page(
        "security.md",
        "Access and personal data",
        """\
Access is given for a year and renewed by the manager. Names, addresses and phone numbers are personal data: they stay
in the warehouse. Report a lost laptop at once, also at night.""",
    ),
    _Page(
        "tools.md",
        "Tools",
        """\
We use one warehouse, one dbt project and one dashboard tool. Spreadsheets are for drafts. The travel tool, the payroll
and the telephone system are run by partners.""",
    ),
)


@dataclass(frozen=True, slots=True)
class Handbook:
    """The pages by file, and where conventions are stated. `places`: the path of the page by the convention's id.

    `superseded`, `contradicted`: the ids of the conventions that an older page, or notes, state differently.
    """

    files: Mapping[str, str]
    places: Mapping[str, str]
    superseded: str
    contradicted: str


def write_handbook(seed: int, conventions: Sequence[Convention]) -> Handbook:
    """Return a company's handbook; every convention settled by documents is stated on the page about its table."""
    dice = Dice(seed, "handbook")
    stated = [each for each in conventions if each.is_on and each.settled_by is SettledBy.DOCUMENT]
    otherwise = dice.sample(stated, min(2, len(stated)))
    files: dict[str, str] = {}
    places: dict[str, str] = {}
    titles: dict[str, str] = {}
    for page in _PAGES:
        rules = [each for each in stated if each.plan.table in page.tables]
        places |= {each.id: f"{FOLDER}/{page.file}" for each in rules}
        files[page.file] = _page(dice, page, rules)
        titles[page.file] = page.title
    if otherwise:
        page = _page_of(otherwise[0])
        name = f"{page.file.removesuffix('.md')}-2022.md"
        files[name] = _superseded(dice, page, otherwise[0])
        titles[name] = f"{page.title} (2022)"
    if len(otherwise) > 1:
        files["notes-2023-02.md"] = _notes(dice, otherwise[1])
        titles["notes-2023-02.md"] = "Notes of the data meeting, February 2023"
    links = "\n".join(f"- [{title}]({name})" for name, title in sorted(titles.items()))
    files["README.md"] = _README.format(company=company_name(seed), links=links)
    ids = [*(each.id for each in otherwise), "", ""]
    return Handbook(dict(sorted(files.items())), places, ids[0], ids[1])


def _page_of(convention: Convention) -> _Page:
    return next(each for each in _PAGES if convention.plan.table in each.tables)


def _person(dice: Dice) -> str:
    return f"{dice.pick(FIRST_NAMES)} {dice.pick(LAST_NAMES)}"


def _page(dice: Dice, page: _Page, rules: Sequence[Convention]) -> str:
    reviewed = _LAST_REVIEW - timedelta(days=dice.between(0, 400))
    front = f"---\nowner: {_person(dice)}\nlast_reviewed: {reviewed.isoformat()}\n---\n"
    parts = [f"# {page.title}", page.text]
    if rules:
        parts.append("## How we count\n\n" + "\n".join(f"- {each.readings[each.truth].sentence}" for each in rules))
    return "\n".join([front, *_separated(parts)])


def _separated(parts: Sequence[str]) -> Iterator[str]:
    for part in parts:
        yield f"{part}\n"


def _other(convention: Convention) -> str:
    """Return the sentence for a reading other than the true one."""
    return convention.readings[convention.wrong[0]].sentence


def _superseded(dice: Dice, page: _Page, convention: Convention) -> str:
    front = f"---\nowner: {_person(dice)}\ndate: 2022-0{dice.between(1, 9)}-15\nstatus: superseded\n"
    front += f"superseded_by: {page.file}\n---\n"
    rule = f"## How we count\n\n- {_other(convention)}"
    return "\n".join([front, *_separated([f"# {page.title} (2022)", page.text.partition("\n\n")[0], rule])])


def _notes(dice: Dice, convention: Convention) -> str:
    people = ", ".join(_person(dice) for _ in range(3))
    text = f"""\
Present: {people}.

- The nightly load was late twice. A second machine is ordered.
- Somebody asked: {convention.question} Until the page is written we do it like this: {_other(convention)}
- The new dashboard tool is tested until March."""
    return "\n".join(
        ["---\ndate: 2023-02-14\n---\n", *_separated(["# Notes of the data meeting, February 2023", text])]
    )


_README: Final = """\
# The handbook of {company}

What our teams do and how we work with data. Every page has an owner. When two pages disagree, the page that was
reviewed last is right; notes of meetings are kept as they were written.

{links}
"""
