"""Domains about people: hospital, staff, university, school, sports, racing, charity, fitness."""

from __future__ import annotations

DOMAINS = {
    "hospital": """
        ward lookup: code name beds | head_nurse>nurse?
        room line(ward): beds
        speciality lookup: name
        physician master: first_name last_name licence_number:docno phone | speciality supervisor>physician?
        nurse master: first_name last_name hired_on | ward
        patient master: first_name last_name birth_date gender insurance_number:docno phone? | insurer? \
            family_doctor>physician? blood_type?
        blood_type lookup: code
        insurer lookup: name city_name
        admission doc: admitted_at discharged_at? reason:text | patient ward attending_physician>physician room?
        diagnosis_code lookup: code description | chapter
        chapter lookup: name
        diagnosis link(admission,diagnosis_code): certainty:status noted_on | physician
        procedure_type lookup: code name price
        procedure doc: performed_at minutes | admission procedure_type surgeon>physician anaesthetist>physician?
        drug master: name strength:quantity form:status price | manufacturer
        manufacturer lookup: name
        prescription doc: prescribed_on days dose | patient physician drug
        administration log: given_at dose | prescription given_by>nurse
        lab_order doc: ordered_at priority | patient ordered_by>physician
        lab_result line(lab_order): value:float unit:status | lab_test
        lab_test lookup: code name price
        vital_sign log: measured_at pulse:quantity temperature | patient nurse?
        appointment doc: starts_at minutes status | patient physician referred_by>physician?
        invoice doc: number issued_on amount paid:flag | admission insurer?
        invoice_item line(invoice): quantity amount | procedure?
        allergy link(patient,drug): severity
        shift_plan slot(nurse): hours | ward
        next_of_kin line(patient): full_name relation:status phone
    """,
    "staff": """
        country lookup: code name
        location master: street postal_code city_name | country
        division lookup: name
        department master: code name budget | division location manager>employee? parent_department>department?
        job lookup: code title minimum_salary maximum_salary
        pay_grade lookup: name salary
        employee master: first_name last_name email phone? hire_date salary? commission? | job department \
            reports_to>employee? pay_grade?
        job_history slot(employee): end_date | job department
        contract doc: start_date end_date? hours kind:status | employee
        dependant line(employee): first_name birth_date relation:status
        bank_detail sub(employee): iban swift
        absence_type lookup: name paid:flag
        absence doc: start_date end_date days status | employee absence_type approved_by>employee?
        time_entry log: day hours | employee cost_project?
        cost_project lookup: code name | owner>employee
        payroll_run lookup: month year status
        payslip link(payroll_run,employee): gross:money net:money tax
        payslip_line line(payslip): amount | wage_type
        wage_type lookup: code name
        course master: title days price | provider?
        provider lookup: name
        course_booking link(course,employee): booked_on grade?
        skill lookup: name
        employee_skill link(employee,skill): level
        vacancy doc: title opened_on closed_on? | department job recruiter>employee
        candidate master: first_name last_name email source:status | referrer>employee?
        application doc: applied_on stage rating? | candidate vacancy
        interview doc: held_at score comment? | application interviewer>employee
        appraisal doc: year score remark? | employee reviewer>employee
        badge sub(employee): number issued_on
        equipment master: serial_number description bought_on | holder>employee?
    """,
    "university": """
        faculty lookup: name | dean>lecturer?
        institute master: name | faculty
        building lookup: code name
        lecture_room line(building): seats
        lecturer master: first_name last_name title:status email | institute
        programme lookup: code name credits:small | faculty
        student master: matriculation_number:docno first_name last_name birth_date email | programme \
            advisor>lecturer? country?
        country lookup: code name
        module master: code title credits:small | institute responsible>lecturer
        prerequisite link(module>module,required_module>module): mandatory
        programme_module link(programme,module): semester_number:small mandatory
        term lookup: code start_date end_date
        offering link(module,term): capacity | lecturer lecture_room?
        enrolment link(student,offering): enrolled_on grade?
        exam doc: held_on minutes | offering lecture_room? examiner>lecturer
        exam_result link(exam,student): points passed:flag
        thesis doc: title registered_on submitted_on? grade? | student supervisor>lecturer second_supervisor>lecturer?
        scholarship lookup: name amount
        grant_award link(student,scholarship): awarded_on amount
        fee_payment doc: paid_on amount | student term
        timetable_slot line(offering): weekday:small start_time:time | lecture_room
        research_project master: acronym:code title budget start_date | institute leader>lecturer
        project_member link(research_project,lecturer): share
        library_loan log: loaned_on returned_on? | student copy
        copy master: barcode bought_on | book
        book master: isbn title year | publisher
        publisher lookup: name
    """,
    "school": """
        school_year lookup: name start_date end_date
        grade_level lookup: name
        class_group master: name | grade_level school_year homeroom_teacher>teacher
        teacher master: first_name last_name subject_code:code hours
        subject lookup: code name
        pupil master: first_name last_name birth_date gender | class_group? sibling>pupil?
        guardian master: full_name phone email
        pupil_guardian link(pupil,guardian): relation:status
        lesson doc: weekday:small period_number:small | class_group subject teacher classroom
        classroom lookup: code seats
        absence log: day lessons:small excused:flag | pupil reported_by>teacher?
        mark doc: given_on value:rating weight:percent | pupil lesson
        report_card link(pupil,school_year): average:float remark?
        report_mark line(report_card): value:rating | subject
        incident doc: happened_on description | pupil teacher
        bus_route lookup: name
        bus_stop line(bus_route): name time
        pupil_bus sub(pupil): since:date | bus_stop
        event doc: title held_on | organiser>teacher school_year
        lunch_order log: ordered_for:date price | pupil meal
        meal lookup: name price
    """,
    "league": """
        nation lookup: code name
        stadium master: name capacity city_name | nation
        club master: name founded_on website? | stadium? nation rival>club?
        athlete master: first_name last_name birth_date height weight | nation playing_position
        playing_position lookup: code name
        season lookup: year start_date end_date
        competition lookup: name | nation?
        competition_season link(competition,season): teams:small
        squad_member link(club,athlete,season): shirt_number:small salary
        coach master: full_name | nation
        coaching_spell slot(coach): end_date? | club
        referee master: full_name | nation
        fixture doc: kickoff:timestamp round attendance:count home_goals away_goals | competition_season \
            home_club>club away_club>club stadium? referee?
        appearance link(fixture,athlete): minutes_played rating goals
        fixture_event log: minute:small kind:status | fixture athlete assist_by>athlete?
        transfer_deal doc: signed_on fee | athlete from_club>club to_club>club agent?
        agent lookup: full_name
        standing link(competition_season,club): points position
        injury doc: injured_on returned_on? description | athlete
        ticket_sale log: sold_at price | fixture stand
        stand line(stadium): capacity
        award lookup: name
        award_winner link(award,season): remark? | athlete
    """,
    "racing": """
        venue master: name city_name length altitude:quantity | nation
        nation lookup: code name
        pilot master: first_name last_name birth_date number:small? | nation
        stable master: name budget | nation principal>pilot?
        championship lookup: year name
        event doc: name held_on laps | venue championship
        entry link(event,pilot): car_number:small | stable chassis?
        chassis lookup: code name | stable
        heat line(event): kind:status distance
        grid_place link(heat,pilot): position time:duration
        lap_time log: lap milliseconds:big position | heat pilot
        finish doc: position points laps status fastest_lap_speed:float | event pilot stable
        penalty doc: lap seconds reason | finish steward?
        steward lookup: full_name
        pit_visit log: lap at duration | event pilot
        pilot_ranking link(championship,pilot): points position wins:small
        stable_ranking link(championship,stable): points position
        tyre_set master: compound:status laps | event stable
        sponsor lookup: name
        sponsorship link(sponsor,stable): amount start_date
    """,
    "charity": """
        donor master: first_name last_name email? street postal_code birth_date? | recruited_by>volunteer?
        organisation_donor sub(donor): tax_number contact_name
        volunteer master: full_name phone joined_on | chapter
        chapter lookup: name city_name | president>volunteer?
        campaign master: name start_date end_date? goal:money | chapter lead>volunteer parent_campaign>campaign?
        fund lookup: code name
        pledge doc: pledged_on amount frequency:status | donor campaign fund
        donation doc: received_on amount method receipt_number:docno | donor pledge? campaign? fund
        mailing master: subject sent_on | campaign
        mailing_recipient link(mailing,donor): opened:flag
        beneficiary master: name household_size:small since:date | chapter
        aid_type lookup: name
        grant_payment doc: paid_on amount | beneficiary aid_type fund approved_by>volunteer
        gathering doc: title held_at capacity | chapter venue?
        venue lookup: name street
        attendance link(gathering,volunteer): hours
        interest_tag lookup: name
        donor_tag link(donor,interest_tag): added_on
        bank_batch doc: booked_on total | fund
        bank_batch_line line(bank_batch): amount | donation?
    """,
    "fitness": """
        club master: name street city_name opened_on
        membership_type lookup: name monthly_fee months:duration
        member master: first_name last_name birth_date gender email phone? | club membership_type invited_by>member?
        trainer master: full_name certified_on hourly_rate:money | club
        class_type lookup: name minutes
        class_session doc: starts_at capacity | class_type trainer studio
        studio line(club): name area
        class_booking link(class_session,member): booked_at attended:flag
        check_in log: at | member club
        locker line(club): | rented_by>member?
        device master: name serial_number bought_on | studio muscle_group?
        muscle_group lookup: name
        workout doc: done_on minutes calories:quantity | member
        workout_set line(workout): repetitions:small weight | exercise
        exercise lookup: name | muscle_group
        plan master: title created_on | member trainer
        plan_exercise link(plan,exercise): sets:small repetitions:small
        body_measure slot(member): weight fat:percent
        fee_charge doc: due_date amount paid_on? | member
        contract_freeze line(member): start_date end_date reason
        shop_sale doc: sold_at total | member? club
        shop_sale_item line(shop_sale): quantity price | article
        article lookup: name price
    """,
}
