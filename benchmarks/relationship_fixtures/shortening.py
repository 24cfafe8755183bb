"""Shortens words as people do: vowels dropped, cut off, usual abbreviations, initials."""

from __future__ import annotations

from benchmarks.relationship_fixtures.pools import listed

_USUAL = dict(
    pair.split("=")
    for pair in listed(
        "customer=cust client=clnt account=acct employee=emp department=dept product=prod order=ord "
        "purchase=purch invoice=inv number=no quantity=qty amount=amt address=addr description=descr "
        "category=cat transaction=txn payment=pmt supplier=supp vendor=vend manager=mgr organization=org "
        "company=co warehouse=whse location=loc document=doc reference=ref total=tot date=dt code=cd status=stat "
        "type=typ group=grp country=ctry region=rgn currency=curr language=lang message=msg service=svc "
        "contract=ctr delivery=dlv shipment=shpmt line=ln item=itm header=hdr detail=dtl position=pos unit=un "
        "price=prc cost=cst value=val rate=rt percent=pct discount=disc balance=bal budget=bdgt period=per "
        "year=yr month=mth day=dy time=tm timestamp=ts start=strt end=end material=matl plant=plt machine=mach "
        "operation=opr schedule=sched maintenance=maint measurement=meas patient=pat physician=phys "
        "diagnosis=diag procedure=proc appointment=appt student=stud course=crs policy=pol claim=clm "
        "coverage=cov vehicle=veh driver=drv route=rte station=stn flight=flt airport=apt passenger=pax "
        "ticket=tkt reservation=resv booking=bkg property=prop building=bldg room=rm person=pers member=mbr "
        "user=usr permission=perm message=msg notification=notif history=hist project=prj task=tsk "
        "campaign=cmpgn opportunity=oppty contact=cont activity=actv subscription=subscr section=sect branch=br "
        "approved=appr created=crt updated=upd parent=par manufacturer=mfr requisition=req receipt=rcpt"
    )
)
_VOWELS = set("aeiouyäöüáéíóúàèìòùâêîôûãõąęó")
_KEPT = 3


def shorten(token: str, way: str) -> str:
    """Return a token shortened in a way (`vowels`, `cut3`, `cut4`, `usual`, `initials` leaves tokens as they are)."""
    if way == "usual":
        return _USUAL.get(token, token)
    if len(token) <= _KEPT or way in ("", "initials"):
        return token
    if way == "vowels":
        return token[0] + "".join(letter for letter in token[1:] if letter not in _VOWELS)
    return token[: int(way[-1])]


def initials(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first letters of a phrase of several words as one token (`po` of purchase order), else the phrase."""
    return ("".join(token[0] for token in tokens if token),) if len(tokens) > 1 else tokens


def letters(words: str, length: int) -> str:
    """Return letters that stand for a phrase: initials of three words and more, else its first consonants."""
    parts = words.split("_")
    if len(parts) >= length:
        return "".join(part[0] for part in parts)[:length]
    joined = "".join(parts)
    firm = joined[0] + "".join(letter for letter in joined[1:] if letter not in _VOWELS)
    return (firm if len(firm) >= length else joined)[:length]
