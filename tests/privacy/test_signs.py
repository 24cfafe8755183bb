"""Which names tell a trait of persons, and which only look like it."""

from __future__ import annotations

import pytest

from ktx_cli.privacy.columns import ValueKind, refusal, sign_of_name, split_name
from ktx_cli.privacy.signs import ALONE, SURE, UNSURE, Sign, trait_of

PERSONAL: dict[Sign, str] = {
    Sign.HEALTH: """
        visits.diagnosis visits.diagnosis_code visits.PrimaryDiagnosis claims.icd10 patients.blood_type
        patients.blood_group employees.disability employees.disability_status people.allergies patients.medication
        patients.is_pregnant patients.hiv_status patients.bmi employees.sick_days staff.sick_leave patients.smoker
        employees.health_status customers.health_insurance patients.disease patients.symptoms patients.treatment
        patienten.Diagnose mitarbeiter.Schwerbehinderung patienten.Blutgruppe personen.Krankenkasse
        patients.maladie patients.groupe_sanguin patientes.grossesse pacientes.enfermedad pacientes.grupo_sangre
        empleados.discapacidad pacientes.alergias pacientes.doenca pacientes.diagnóstico pazienti.malattia
        pazienti.gruppo_sanguigno patienten.ziekte patienten.bloedgroep medewerkers.ziekteverzuim
    """,
    Sign.BELIEF: """
        users.religion people.religious_views users.ethnicity users.ethnic_origin customers.race students.caste
        users.sexual_orientation members.political_party mitarbeiter.Konfession mitarbeiter.Religionszugehörigkeit
        mitarbeiter.kirchensteuer personas.etnia pessoas.religião pessoas.raça persone.religione klanten.godsdienst
        personnes.ethnie
    """,
    Sign.PAY: """
        employees.salary employees.base_salary staff.annual_salary_usd hr.SalaryAmount employees.hourly_wage
        employees.bonus employees.commission_pct customers.annual_income people.income employees.compensation
        mitarbeiter.Gehalt mitarbeiter.Bruttogehalt mitarbeiter.stundenlohn employes.salaire empleados.salario
        empleados.sueldo funcionarios.salário dipendenti.stipendio medewerkers.salaris medewerkers.uurloon
        personen.salaris
    """,
    Sign.GENDER: """
        customers.gender users.gender_code people.Sex users.pronouns kunden.Geschlecht clients.sexe clientes.sexo
        clienti.sesso klanten.geslacht clientes.género clients.genre
    """,
    Sign.AGE: """
        customers.age users.age_years patients.AgeAtDeath survey.age people.current_age
        orders.customer_age mitarbeiter.Alter kunden.lebensalter clientes.edad clientes.idade clienti.età
        klanten.leeftijd clients.âge
    """,
    Sign.BIRTH: """
        customers.birth_date users.birthYear users.dob users.born_on people.year_born kunden.Geburtsdatum
        clients.date_naissance clientes.fecha_nacimiento clienti.data_nascita clientes.data_nasc klanten.geboortedatum
    """,
    Sign.PHONE: """
        employees.extension employees.Extension employees.phone_extension staff.ext employees.office_ext
        mitarbeiter.Durchwahl mitarbeiter.nebenstelle funcionarios.ramal medewerkers.toestel
        medewerkers.doorkiesnummer
    """,
}
"""Sign -> `table.column` that has it."""

HARMLESS = """
    products.age_group toys.age_range customers.age_band customers.age_group games.age_rating films.age_restriction
    site.age_gate cookies.max_age policies.min_age stats.average_age invoices.age tickets.age_days cache.age
    accounts.account_age inventory.inventory_age wines.age pages.page pages.page_count pages.language
    books.language_code logs.message_age metrics.average metrics.usage metrics.usage_pct metrics.percentage
    metrics.coverage orders.package stock.storage hosts.memory_usage images.image_type stages.stage
    shipments.stage_name jobs.manager_level shipments.eta shipments.eta_hours sql.alter_count vintage.vintage
    hotels.cottage parts.voltage brands.heritage races.race_name races.race races.race_date sports.race_distance
    runs.race_condition tracks.genre books.genre music.genre movies.genre_name albums.genre songs.género
    products.gender shoes.target_gender garments.sex hr.gender_ratio hr.gender_pay_gap surveys.gender_question
    books.religion products.religion service.health_check servers.health servers.health_status hosts.health
    probes.health_state machines.diagnostic_code logs.diagnostics engines.condition orders.condition
    rules.conditions stocks.income_statement companies.net_income orders.bonus_points orders.payment
    orders.pay_method orders.paid payments.pay_date invoices.payable jobs.min_salary jobs.max_salary
    departments.avg_salary statistics.median_income jobs.salary_band jobs.salary_range jobs.salary_currency
    jobs.salary_grade files.extension files.file_extension uploads.ext domains.extension contracts.extension
    browsers.extension leases.extension_count employees.file_extension regions.birth_rate countries.birth_rate
    cities.birth_country stats.births orders.origin products.origin_country flights.origin dogs.raza wines.origine
    parties.party politics.party_count sexagesimal.value sussex.essex_county towns.middlesex events.stage_age_days
    terms.wageringen stock.sickle brands.saladry religions.religion_count fields.health_score buildings.eta
    stars.born
"""


def split(names: str) -> list[tuple[str, str]]:
    return [(table, column) for table, _, column in (name.partition(".") for name in names.split())]


def test_names_that_tell_a_trait() -> None:
    wrong = [
        (table, column, str(found))
        for sign, names in PERSONAL.items()
        for table, column in split(names)
        if (found := sign_of_name(table, column)) is not sign
    ]
    assert wrong == []


def test_names_that_only_look_like_it() -> None:
    traits = {*SURE, *UNSURE, Sign.BIRTH}
    wrong = [(t, c, str(found)) for t, c in split(HARMLESS) if (found := sign_of_name(t, c)) in traits]
    assert wrong == []


def test_the_tables_are_large_enough_to_mean_something() -> None:
    assert sum(len(split(names)) for names in PERSONAL.values()) >= 80
    assert len(split(HARMLESS)) >= 80


def test_no_trait_is_found_inside_a_word() -> None:
    """A letter before or after each word makes it another one; not where the two are a word of a list themselves."""
    known = frozenset().union(*SURE.values(), *UNSURE.values())
    for word in sorted(known):
        for other in (f"q{word}", f"{word}q"):
            assert trait_of(("t",), (other,)) is None, other


@pytest.mark.table("word", sorted(ALONE))
def test_an_age_needs_no_person_and_yields_to_a_thing(word: str) -> None:
    assert trait_of(("t",), (word,)) is Sign.AGE
    assert trait_of(("wines",), (word,)) is None
    assert trait_of(("wine", "customers"), (word,)) is Sign.AGE


def test_every_word_is_written_as_names_are_split() -> None:
    for known in (*SURE.values(), *UNSURE.values()):
        assert [word for word in known if split_name(word) != (word,)] == []


def test_nothing_of_such_a_column_is_kept() -> None:
    found = refusal("employees", "salary", ValueKind.INTEGER, [50_000, 61_500])
    assert found is not None
    assert (str(found), found.personal) == ("pay (by name)", True)
    assert refusal("customers", "gender", ValueKind.TEXT, ["F", "M"]) is not None
    assert refusal("patients", "is_pregnant", ValueKind.BOOLEAN, [True, False]) is None
