"""Domains of places and culture: hotel, property, museum, library, films, music, tickets, city hall, courts."""

from __future__ import annotations

DOMAINS = {
    "hotel": """
        property master: name stars street city_name | chain?
        chain lookup: name
        room_type lookup: code name beds base_price
        room line(property): floor smoking:flag | room_type
        guest master: first_name last_name email? phone? birth_date? | nationality>country
        country lookup: code name
        travel_agent lookup: name commission
        stay doc: arrival_date departure_date guests total status | guest property travel_agent? rate_plan
        rate_plan lookup: code name discount
        stay_room link(stay,room): price
        stay_night line(stay): night:date price
        folio doc: opened_on closed_on? balance | stay payer>guest?
        folio_charge line(folio): amount quantity posted_at | service
        service lookup: name price | outlet
        outlet lookup: name
        housekeeper master: full_name | property
        cleaning log: cleaned_at minutes | room housekeeper
        room_rate slot(room_type): price
        complaint doc: raised_at text severity | stay handled_by>housekeeper?
        minibar_item link(room_type,product): quantity
        product lookup: name price
        conference doc: title starts_at attendees | property organiser>guest
    """,
    "property": """
        municipality lookup: code name
        neighbourhood lookup: name | municipality
        estate master: street postal_code year area | neighbourhood owner>party administrator>party?
        flat line(estate): floor rooms area
        party master: name email? phone? kind:status
        broker master: full_name licence_number:docno commission | office
        office lookup: name city_name | director>broker?
        listing doc: listed_on price status description | estate broker listing_type
        listing_type lookup: name
        viewing doc: viewed_at feedback:text? | listing visitor>party broker
        offer doc: offered_on amount accepted:flag | listing bidder>party
        lease doc: start_date end_date? monthly_rent:money deposit | flat tenant>party co_tenant>party?
        rent_payment doc: due_date paid_on? amount | lease
        repair_request doc: reported_on done_on? cost text | flat craftsman? reported_by>party
        craftsman lookup: name trade:status phone
        utility_cost slot(estate): amount
        feature lookup: name
        estate_feature link(estate,feature): remark?
        photo line(listing): url
        mortgage doc: amount rate granted_on | estate lender
        lender lookup: name
        valuation slot(estate): value | appraiser>broker
    """,
    "museum": """
        wing lookup: name
        gallery line(wing): area climate:status
        maker master: full_name birth_year death_year? | culture?
        culture lookup: name
        technique lookup: name
        artwork master: inventory_number:docno title year height width value | technique acquired_from>donor? gallery?
        donor master: name city_name
        artwork_maker link(artwork,maker): attribution:status
        exhibition master: title opens_on closes_on visitors:count | curator
        curator master: full_name email | deputy>curator?
        exhibit link(exhibition,artwork): position label_text:text
        lender lookup: name country_name:city
        loan doc: lent_on due_date returned_on? insurance_value | artwork lender? exhibition?
        restoration doc: started_on finished_on? cost report:text | artwork restorer
        restorer lookup: full_name
        condition_check log: checked_on grade note:text? | artwork curator
        ticket_type lookup: name price
        visit_ticket log: sold_at visit_date price | ticket_type exhibition?
        tour doc: starts_at guests | guide exhibition
        guide lookup: full_name language_name
        image line(artwork): url width height
        keyword lookup: name | broader>keyword?
        artwork_keyword link(artwork,keyword): weight:percent
    """,
    "lending": """
        branch_library master: name street opened_on
        shelf line(branch_library): floor
        work master: title original_year:year | series? work_language>language
        language lookup: code name
        series lookup: title
        writer master: first_name last_name birth_year death_year? | mother_tongue>language?
        work_writer link(work,writer): role_name:status position
        edition master: isbn pages year | work imprint translator>writer?
        imprint lookup: name | parent_house>imprint?
        holding master: barcode acquired_on price | edition branch_library shelf?
        patron master: card_number:docno first_name last_name email? birth_date expires_on | patron_group \
            home_branch>branch_library
        patron_group lookup: name max_loans:small
        checkout doc: lent_at due_date returned_at? renewals:small | holding patron issued_by>librarian \
            received_by>librarian?
        librarian master: full_name | branch_library
        hold_request doc: placed_at status position | edition patron pickup_branch>branch_library
        overdue_fine doc: amount paid_on? | checkout
        genre lookup: name | parent_genre>genre?
        work_genre link(work,genre): primary:flag
        acquisition doc: ordered_on total | vendor
        acquisition_line line(acquisition): quantity price | edition
        vendor lookup: name
        reading_room_visit log: at minutes | patron branch_library
    """,
    "streaming": """
        studio lookup: name
        production master: title release_year:year minutes budget? rating | studio? original_language>language \
            sequel_of>production?
        language lookup: code name
        episode line(production): title minutes aired_on
        artist master: full_name birth_year? biography:text?
        credit_role lookup: name
        production_credit link(production,artist,credit_role): billing_position:position
        character master: name | production performer>artist
        mood lookup: name
        production_mood link(production,mood): strength:percent
        viewer master: email joined_on | subscription_tier territory
        subscription_tier lookup: name price screens:small
        territory lookup: code name
        viewer_profile line(viewer): name kids:flag
        playback log: started_at minutes device:status | viewer_profile production episode?
        viewer_rating link(viewer,production): stars rated_at
        watch_list_item link(viewer_profile,production): added_at
        licence doc: valid_from valid_until fee | production territory licensor
        licensor lookup: name
        subtitle_track link(production,language): url
        festival lookup: name
        nomination doc: year won:flag | festival production artist? prize_category
        prize_category lookup: name
        trailer line(production): url seconds
    """,
    "music": """
        record_company lookup: name | parent_company>record_company?
        performer master: name formed_year:year city_name | home_country>country
        country lookup: code name
        band_membership link(band>performer,musician>performer): since_year:year
        release_group master: title release_date status | performer record_company
        song master: title seconds bpm:quantity | composer>performer? style
        style lookup: name | parent_style>style?
        recording link(release_group,song): position disc:small
        listener master: username:label email birth_year? country_name:city
        collection master: name created_at public:flag | listener
        collection_song link(collection,song): position added_at
        play log: played_at milliseconds:big skipped:flag | listener song
        follow link(follower>listener,followed>listener): since:date
        concert doc: held_on price sold_count:count | performer hall support_act>performer?
        hall master: name capacity city_name | country
        set_list_entry line(concert): | song
        royalty_period lookup: start_date end_date
        royalty link(royalty_period,song): amount plays:count
        chart lookup: name | country?
        chart_entry slot(chart): position weeks:small | song
        instrument lookup: name
        session_credit link(song,performer,instrument): fee
    """,
    "ticketing": """
        promoter lookup: name phone
        arena master: name city_name capacity | promoter?
        section line(arena): name
        place line(section): row_label:code
        show master: title description? minutes | show_kind
        show_kind lookup: name
        performance doc: starts_at doors_open:time status | show arena
        price_level lookup: name
        performance_price link(performance,price_level): price
        buyer master: full_name email phone? newsletter:flag
        ticket_order doc: ordered_at total fee channel | buyer voucher?
        voucher lookup: code value expires_on?
        ticket line(ticket_order): barcode price scanned_at? | performance place? price_level
        resale doc: listed_at price sold_at? | ticket seller>buyer purchaser>buyer?
        entry_scan log: at gate | ticket steward
        steward lookup: full_name | arena
        cancellation doc: cancelled_at refund_amount | ticket_order handled_by>steward?
        partner_outlet lookup: name commission
        allocation link(performance,partner_outlet): seats
    """,
    "city_hall": """
        resident master: first_name last_name birth_date gender | household? spouse>resident?
        household master: street_number:small | street
        street lookup: name | quarter
        quarter lookup: code name
        authority lookup: name | parent_authority>authority? head>official?
        official master: first_name last_name room:code phone | authority deputy>official?
        permit_kind lookup: code name fee valid_days:duration
        permit doc: number applied_on granted_on? status | permit_kind applicant>resident official?
        permit_document line(permit): title checksum
        inspection doc: inspected_on result:status remark? | permit inspector>official
        parcel master: lot_number:docno area value | street owner>resident
        tax_notice doc: year amount due_date | parcel
        tax_payment doc: paid_on amount | tax_notice
        offence_code lookup: code description amount
        parking_fine doc: plate issued_at amount paid:flag | offence_code street officer>official
        election lookup: name held_on
        polling_place lookup: name | street
        contender master: full_name party_name:label | election
        vote_count link(contender,polling_place): votes:count
        waste_tour slot(quarter): kind:status
        request_case doc: received_at closed_at? subject body | resident? authority assigned_to>official?
        case_note log: written_at text | request_case author>official
    """,
    "court": """
        tribunal lookup: code name city_name | appeals_to>tribunal?
        judge master: full_name appointed_on | tribunal
        legal_area lookup: name
        proceeding doc: docket_number:docno filed_on closed_on? value? status | tribunal judge legal_area \
            lower_proceeding>proceeding?
        litigant master: name street city_name kind:status
        participation link(proceeding,litigant): role_name:status | counsel?
        counsel master: full_name bar_number:docno | law_firm?
        law_firm lookup: name phone
        hearing doc: starts_at minutes room:code | proceeding presiding_judge>judge
        witness master: full_name phone? | proceeding called_by>litigant
        exhibit line(proceeding): description filed_on | filed_by>counsel?
        ruling doc: decided_on outcome text | proceeding judge
        statute lookup: code title
        ruling_statute link(ruling,statute): paragraph:small
        fee_bill doc: issued_on amount paid_on? | proceeding payer>litigant
        docket_entry log: at text | proceeding clerk
        clerk lookup: full_name | tribunal
        time_record log: day hours rate | counsel proceeding
        retainer sub(litigant): amount since:date | law_firm
    """,
}
