"""Words in names that tell traits of persons: health, belief and origin, pay, gender, age, extensions of phones.

English, German, French, Spanish, Portuguese, Italian and Dutch without accents; always whole words of a name. Some
say it alone (`SURE`), some only of a person (`UNSURE`: a `race` may be run). Words of one language that mean something
else in another (`eta`, `alter`, `genre`) are unsure.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ktx_cli.context.scan.profiling.privacy_words import GENERIC, PERSONS, Sign


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SURE: Mapping[Sign, frozenset[str]] = MappingProxyType(
    {
        Sign.HEALTH: _words(
            "diagnosis diagnoses icd icd9 icd10 disability disabilities allergy allergies medication medications"
            " pregnant pregnancy blood vaccinated vaccination vaccinations hiv bmi sick sickness illness smoker"
            " diagnose diagnosen behinderung schwerbehinderung allergie allergien medikament medikamente schwanger"
            " schwangerschaft blutgruppe blutdruck impfung impfstatus krankheit krankheiten krankenkasse krankmeldung"
            " krankenversicherung gesundheitszustand maladie maladies handicape medicament medicaments enceinte"
            " grossesse enfermedad enfermedades discapacidad alergia alergias medicamento medicamentos embarazo"
            " embarazada vacunado doenca doencas gravidez gravida malattia malattie disabilita allergia allergiche"
            " gravidanza incinta vaccinato ziekte ziekten ziekteverzuim medicatie zwanger zwangerschap"
            " bloedgroep diagnostico diagnosi sanguigno sanguin sangre sanguineo"
        ),
        Sign.BELIEF: _words(
            "religion religious ethnicity ethnic caste sexual konfession religionszugehorigkeit kirchensteuer"
            " ethnizitat hautfarbe ethnie etnia etnicidad etnicidade religiao religione religie godsdienst"
            " geloofsovertuiging etniciteit"
        ),
        Sign.PAY: _words(
            "salary salaries wage wages remuneration gehalt gehalter bruttogehalt nettogehalt jahresgehalt monatsgehalt"
            " grundgehalt lohn bruttolohn nettolohn stundenlohn salaire salaires salario salarios sueldo stipendio"
            " retribuzione remuneracion remuneracao salaris maandsalaris jaarsalaris loon brutoloon nettoloon uurloon"
        ),
        Sign.GENDER: _words("gender sex geschlecht sexe sexo sesso geslacht pronouns"),
        Sign.PHONE: _words("durchwahl nebenstelle doorkiesnummer"),
    }
)
"""Say it of whatever they stand with, but for `STATISTICS`, `HEADS` and `THINGS`."""

UNSURE: Mapping[Sign, frozenset[str]] = MappingProxyType(
    {
        Sign.BIRTH: _words("born"),
        Sign.AGE: _words("age edad idade leeftijd lebensalter alter eta"),
        Sign.HEALTH: _words(
            "health disease diseases symptom symptoms therapy treatment treatments handicap vaccine diagnostic"
            " condition gesundheit befund sante salud saude salute gezondheid deficiencia therapie tratamiento"
            " tratamento terapia behandeling"
        ),
        Sign.BELIEF: _words("race faith political herkunft origine origen raza raca razza ras origem afkomst"),
        Sign.PAY: _words(
            "income bonus compensation earnings pay commission einkommen vergutung revenu revenus prime ingreso"
            " ingresos reddito renda ordenado inkomen beloning"
        ),
        Sign.GENDER: _words("genre genero genere"),
        Sign.PHONE: _words("extension ext ramal toestel"),
    }
)
"""Say it where the table or the name speaks of a person, and nothing else stands in the name but `FRAME`."""

ALONE = _words("age edad idade leeftijd lebensalter")
"""Of the unsure ones those that need no person, where the name says nothing else either."""

FRAME = _words(
    "at on of in de del da di du la le der des the years year yrs anos ans jahre jaar hire death entry onset current my"
    " status state issue issues problem problems insurance base gross net brutto netto monthly annual yearly hourly"
    " office work desk phone tel telephone party views pct percent usd eur amount"
)
"""May stand beside an unsure word."""

STATISTICS = _words("avg average mean median min max minimum maximum mittlere durchschnitt moyen moyenne media medio")
"""Of many: `avg_salary` of a department, `min_salary` of a job."""

HEADS = _words(
    "band bands bracket range bucket group groups tier grade level class category segment policy count cnt currency"
    " date day rule limit survey question report target gap distribution ratio rate rates requirement option options"
    " filter neutral rating restriction gate gruppe klasse waehrung wahrung tranche groupe rango grupo fascia gruppo"
    " groep categorie kategorie categoria"
)
"""What is told is not the trait: `age_group`, `salary_currency`."""

KEPT_HEADS = _words("blood sanguigno sanguin sangre sanguineo")
"""With one of these a head tells the trait: `blood_group`."""

THINGS = _words(
    "product products item items article articles artikel produkt produkte producto productos produit produits prodotto"
    " prodotti produto produtos sku skus catalog catalogue shoe shoes clothing garment garments game games film films"
    " movie movies book books wine wines whisky cheese cache inventory invoice invoices asset assets machine machines"
    " session sessions ticket tickets building buildings tree trees file files vehicle vehicles account accounts car"
    " cars server servers service services song songs album albums track tracks animal animals dog dogs horse horses"
    " toy toys job jobs"
)
"""What has an age, a gender or a health and is nobody."""

PEOPLE = PERSONS | _words(
    "emp emps personnel workforce hr payroll child children kid kids pupil pupils pazienti paziente patienten klanten"
    " clientes lavoratori trabajador trabajadores empregado empregados medewerkers salarie salaries leden funcionarios"
    " candidates applicants participants subscribers members doctors teachers drivers passengers actors residents"
    " donors tenants runners athletes players athlete runner player"
)
"""Whom the unsure words speak of."""


def trait_of(table: tuple[str, ...], words: tuple[str, ...]) -> Sign | None:
    """Return the trait of persons the words of a column's name tell, None where they tell none; `table`: its words."""
    named = set(words)
    person = bool(PEOPLE & {*words, *table})
    if named & STATISTICS or (not person and THINGS & {*words, *table}):
        return None
    if _head(words) in HEADS and not named & KEPT_HEADS:
        return None
    sure = next((sign for sign, known in SURE.items() if known & named), None)
    return sure or _unsure(named, person=person)


def _unsure(named: set[str], *, person: bool) -> Sign | None:
    for sign, known in UNSURE.items():
        found = known & named
        rest = named - found - FRAME - GENERIC - PEOPLE
        if found and not rest and (person or found & ALONE):
            return sign
    return None


def _head(words: tuple[str, ...]) -> str:
    """Return the last word, without what may stand behind any head (`age_group_code`)."""
    head = list(words)
    while len(head) > 1 and head[-1] in GENERIC:
        head.pop()
    return head[-1]
