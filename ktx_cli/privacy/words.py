"""Words in the names of tables and columns that tell personal data, identifiers and free text.

English, German, French, Spanish, Italian, Portuguese, Dutch and Polish without accents, some Russian, Chinese, Japanese
and Korean. `WORDS` have to be a whole word of a name (`tel` of `work_tel`), `STEMS` may stand in one (`telefon` of
`Telefonnummer`), also where a name is written without separators (`phonenumber`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Sign(StrEnum):
    """What a column was recognised as, in the words of a report."""

    EMAIL = "e-mail address"
    PHONE = "phone number"
    NAME = "name of a person"
    ADDRESS = "postal address"
    BIRTH = "date of birth"
    AGE = "age"
    GENDER = "gender"
    HEALTH = "health"
    BELIEF = "religion or origin"
    PAY = "pay"
    BANK = "bank account or payment card"
    NATIONAL = "national, tax or social-security number"
    SECRET = "password, key or hash"
    NETWORK = "network address"
    PLACE = "coordinates"
    URL = "address on the web"
    TEXT = "free text"
    DATE = "dates written as text"
    IDENTIFIER = "identifier"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WORDS: Mapping[Sign, frozenset[str]] = MappingProxyType(
    {
        Sign.EMAIL: _words("mail mails courriel correo posta poczta"),
        Sign.PHONE: _words(
            "tel fon mobile cell cellular cellulare handy movil portable celular gsm fax whatsapp msisdn"
        ),
        Sign.NAME: _words(
            "surname forename fname lname nick cognome apellido apellidos prenom nazwisko imie achternaam"
            " voornaam sobrenome apelido alias handle login author auteur autor autore fullname signature initials"
        ),
        Sign.ADDRESS: _words(
            "street strasse rue calle rua straat ulica address addr adresse adres indirizzo direccion endereco"
            " morada domicilio domicile anschrift zip zipcode postcode plz cep"
        ),
        Sign.BIRTH: _words(
            "birth dob birthday bday birthdate nasc geburtstag naissance nacimiento nascita nascimento urodzenia"
        ),
        Sign.BANK: _words("iban bic swift pan cvv cvc ccn bankaccount"),
        Sign.NATIONAL: _words(
            "ssn nino nin nif nie dni curp rfc cpf cnpj bsn pesel nip regon passport passeport pasaporte"
            " passaporto passaporte paspoort paszport reisepass personalausweis ustid ustidnr snils"
        ),
        Sign.SECRET: _words(
            "pwd pass passcode pin secret secrets token jwt apikey hash md5 sha1 sha256 checksum credential"
            " credentials segreto secreto geheim otp"
        ),
        Sign.NETWORK: _words("ip ipv4 ipv6 ipaddress ipaddr mac macaddress hostname"),
        Sign.PLACE: _words(
            "lat latitude lng lon long longitude geo gps coord coords coordinates geolocation breitengrad"
        ),
        Sign.URL: _words("url uri link href website homepage webseite avatar permalink"),
        Sign.TEXT: _words(
            "comment comments note notes remark remarks message messages memo feedback body bio text notiz"
            " notizen bemerkung kommentar nachricht commentaire remarque mensaje comentario nota notas"
            " observaciones commento messaggio osservazioni mensagem observacao opmerking bericht uwagi komentarz"
            " wiadomosc"
        ),
        Sign.IDENTIFIER: _words("id ids uid uuid guid oid key pk rowid identifier kennung identifiant"),
    }
)

STEMS: Mapping[Sign, frozenset[str]] = MappingProxyType(
    {
        Sign.NETWORK: _words("useragent"),
        Sign.EMAIL: _words("email correoelectronico courriel почт 邮箱 邮件 メール 이메일"),
        Sign.PHONE: _words(
            "phone telefon telefoon handynummer rufnummer mobilnummer numerotel телефон 电话 電話 手机 전화"
        ),
        Sign.NAME: _words(
            "firstname lastname fullname surname givenname familyname middlename maiden nickname username"
            " loginname vorname nachname familienname benutzername nomdefamille prenom primernombre segundonombre"
            " nombrecompleto apellido cognome nomecompleto sobrenome achternaam voornaam nazwisko фамили отчеств"
            " 姓名 氏名 이름"
        ),
        Sign.ADDRESS: _words(
            "street address strasse hausnummer postleitzahl postalcode zipcode postcode codepostal codigopostal"
            " codicepostale kodpocztowy adress indirizz direccion endereco straat anschrift адрес 地址 住所 주소"
        ),
        Sign.BIRTH: _words(
            "birthda birthyear dateofbirth geburt naissance nacimiento nascita nascimento geboorte urodzen"
            " рождени 生日 出生 생년"
        ),
        Sign.BANK: _words(
            "creditcard cardnumber ccnumber kreditkart kartennummer kontonummer accountnumber accountno"
            " bankaccount numerocarte numerotarjeta numerodetarjeta numerocarta rekeningnummer numerkonta"
            " routingnumber sortcode 银行卡"
        ),
        Sign.NATIONAL: _words(
            "socialsecurity nationalid taxid taxnumber taxpayer vatnumber vatid steuernummer steuerid"
            " sozialversicherung passportn ausweisnummer numerosecu securitesociale codicefiscale partitaiva"
            " driverslicen driverlicen fuhrerschein seguridadsocial burgerservice паспорт снилс 身份证"
        ),
        Sign.SECRET: _words(
            "password passwd passwort kennwort passphrase motdepasse contrasen wachtwoord haslo apikey secretkey"
            " accesskey privatekey accesstoken refreshtoken passwordhash парол 密码 パスワード 비밀번호"
        ),
        Sign.PLACE: _words("latitude longitude geolocation широт долгот"),
        Sign.URL: _words("website homepage"),
        Sign.TEXT: _words("freetext freitext kommentar commentaire comentario bemerkung комментар 备注 備考"),
    }
)

PERSONS = _words(
    "customer client kunde kunden cliente clienti clientes klant klient klienci user users benutzer nutzer"
    " usuario usuarios utilisateur utente utenti gebruiker uzytkownik employee employees mitarbeiter employe"
    " employes empleado empleados dipendente dipendenti funcionario medewerker pracownik pracownicy person persons"
    " people persona personas personne personnes persone pessoa pessoas contact contacts kontakt contacto contatto"
    " contato patient patients paciente paziente student students schuler etudiant estudiante studente member"
    " members mitglied mitglieder membre miembro staff actor actors driver passenger guest guests gast applicant"
    " candidate subscriber donor teacher doctor physician nurse lawyer owner owners manager managers supervisor"
    " assignee salesperson rep agent agents seller buyer recipient sender spouse mother father attendee"
    " participant resident tenant borrower holder cardholder reviewer reporter requester approver customers"
    " clients authors"
)
"""What persons are called: `customer_name` is a person's, and `name` of a table `customers`."""

NAMES = _words("name names nom nome nombre naam nazwa imie")
"""What a name is called, of a person or of anything else."""

FILLERS = _words("de del della di do da dos des der du of the la le el van von")
"""Small words in names."""

NAME_PARTS = _words("first last full given family middle maiden birth")
"""With one of `NAMES` behind it a person's name."""

DEEDS = _words(
    "created updated modified changed assigned approved entered closed opened reported requested signed owned inserted"
)
"""With `by` or `to` behind it a person."""

FACTS = _words(
    "type types typ kind class klasse category categories kategorie categoria categorie status state states flag"
    " tier level segment group gruppe method mode channel source provider domain format country land pays pais"
    " paese region province city town stadt ville ciudad citta cidade language lang sprache currency verified"
    " confirmed valid consent subscribed preference preferred optin count cnt size length brand network scheme"
    " policy reason result version gender role title department team industry sector market scope label labels art"
    " zone zones area color colour nationality religion score rating rank priority severity quality style shape"
    " frequency unit units algorithm rate rates"
)
"""Head words of columns that hold a fact about something, not the thing: `email_status`, `card_type`."""

FACTS_FIRST = _words(
    "tipo type typ rodzaj soort statut estado estatus stato situacao pais pays paese kraj land ville ciudad citta"
    " cidade miasto categoria categorie metodo methode metoda canal canale langue idioma lingua is has n num count"
    " nb hat ist czy"
)
"""The same where the head comes first: `tipo_telefono`, `has_email`."""

FACT_ENDINGS = ("status", "typ", "type", "kategorie", "klasse", "gruppe", "land", "art", "flag", "soort")
"""Ends of compounds that are facts: `Adressart`."""

GENERIC = _words("code codes name names label abbr short long desc description id key nr no number num bezeichnung")
"""What may stand behind a head word without changing it: `card_type_code`."""

GIVEN_NAMES = _words(
    "james john robert michael william david richard joseph thomas charles daniel matthew anthony mark steven"
    " paul andrew joshua kevin brian edward jason jeffrey ryan jacob gary nicholas eric jonathan stephen larry"
    " justin scott brandon benjamin samuel gregory patrick alexander jack dennis jerry tyler aaron jose adam"
    " nathan henry peter kyle mary patricia jennifer linda elizabeth barbara susan jessica sarah karen lisa nancy"
    " betty sandra margaret ashley kimberly emily donna michelle carol amanda melissa deborah stephanie rebecca"
    " laura helen sharon cynthia kathleen amy angela anna ruth brenda pamela nicole katherine emma samantha"
    " christine catherine rachel maria janet heather diane julie joyce victoria kelly lauren joan evelyn olivia"
    " hannah megan andrea sophia grace ada alice alan bob hans klaus jurgen wolfgang stefan andreas markus uwe"
    " frank jens ralf bernd dieter gunter heinz helmut werner monika petra sabine ursula renate karin heike gisela"
    " brigitte ingrid claudia birgit katja anke silke jutta jean pierre michel andre philippe alain jacques"
    " bernard nicolas christophe laurent francois julien sebastien marie nathalie isabelle sylvie francoise"
    " monique martine camille chloe lea manon juliette antonio manuel francisco juan javier carlos miguel jesus"
    " luis alejandro fernando pablo sergio jorge alberto carmen josefa isabel dolores pilar teresa lucia marta"
    " cristina rosario mercedes giuseppe giovanni mario luigi francesco angelo vincenzo pietro salvatore marco"
    " luca matteo giulia chiara francesca giovanna joao pedro paulo tiago rui ana beatriz ines mariana rafael"
    " gabriel lucas jan piet kees willem johannes hendrik cornelis sander joost anneke femke sanne piotr krzysztof"
    " andrzej tomasz pawel marcin michal jakub katarzyna malgorzata agnieszka ewa elzbieta zofia ivan sergey"
    " dmitry alexei alexey vladimir mikhail olga tatiana natalia elena irina svetlana mohammed muhammad mohamed"
    " ahmed ali hassan omar fatima aisha wei fang li ming yuki hiroshi kenji takashi priya rahul amit sanjay"
    " deepak anjali lars sven erik nils ole bjorn astrid ingeborg solveig"
)
"""Given names that many people have, in no lookup of things; without accents."""


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
