"""Domains of making and moving things: plants, logistics, energy, telecom, farms, fleets, airlines, mining."""

from __future__ import annotations

DOMAINS = {
    "manufacturing": """
        site lookup: code name city_name
        hall line(site): name area
        work_center master: code name hourly_rate:money capacity | site cost_group?
        cost_group lookup: name
        machine master: serial_number name model_year purchased_on power | work_center maker?
        maker lookup: name website?
        operator master: first_name last_name badge_number:docno | site team_lead>operator?
        skill lookup: name
        operator_skill link(operator,skill): level certified_on
        part master: number description unit_cost weight kind:status | drawing? substitute>part?
        drawing master: number revision released_on
        bill_of_material link(assembly>part,component>part): quantity position
        routing master: version valid_from | part
        routing_step line(routing): setup_minutes run_minutes | work_center
        work_order doc: number quantity start_date due_date status priority | part routing site parent_order>work_order?
        operation doc: started_at finished_at? good_quantity scrap_quantity | work_order machine operator routing_step?
        scrap_reason lookup: code description
        scrap_record doc: quantity recorded_at | operation scrap_reason
        inspection doc: inspected_at result:status | work_order inspector>operator
        measurement line(inspection): value:float | characteristic
        characteristic master: name lower_limit:float upper_limit:float | part
        downtime log: started_at minutes | machine downtime_cause? reported_by>operator?
        downtime_cause lookup: name
        maintenance_plan master: name interval_days | machine
        maintenance_job doc: planned_on done_on? cost | maintenance_plan technician>operator?
        spare_part link(machine,part): quantity
        tool master: code description life:quantity | storage_place
        storage_place lookup: code
        batch doc: number produced_on quantity expiry_date? | part work_order?
        sensor master: name unit:status | machine
        sensor_reading log: at reading | sensor
    """,
    "logistics": """
        country lookup: code name
        port lookup: code name | country
        depot master: code name street capacity | country parent_depot>depot?
        dock line(depot): width
        forwarder lookup: name phone
        client master: name vat_number:docno credit_limit | country
        truck master: plate capacity bought_on | home_depot>depot truck_type
        truck_type lookup: name max_weight
        driver master: first_name last_name licence_number:docno hired_on | depot mentor>driver?
        route master: code distance minutes | origin>depot destination>depot
        route_stop line(route): planned_minutes | depot
        tour doc: departed_at returned_at? status | route truck driver co_driver>driver?
        consignment doc: number pickup_date weight volume value | client sender_depot>depot receiver_depot>depot \
            forwarder?
        parcel line(consignment): weight length height fragile:flag
        tour_parcel link(tour,parcel): loaded_at
        scan_event log: at status | parcel depot scanned_by>driver?
        container master: number size | owner>forwarder
        voyage doc: vessel_name:label sailed_on arrived_on? | loading_port>port discharge_port>port
        container_voyage link(container,voyage): seal_number:docno weight
        customs_entry doc: filed_on duty:money status | consignment port
        tariff lookup: code rate
        freight_invoice doc: number invoice_date amount | client consignment
        fuel_log log: at volume price mileage | truck driver
        damage_report doc: reported_on description amount | parcel driver?
    """,
    "energy": """
        grid_area lookup: code name
        substation master: name voltage:quantity commissioned_on | grid_area fed_by>substation?
        feeder line(substation): length
        meter_type lookup: name digits:small
        meter master: serial_number installed_on removed_on? | meter_type premise
        premise master: street postal_code city_name | feeder? grid_area
        consumer master: name email? since:date segment:status
        supply_contract doc: start_date end_date? deposit status | consumer premise tariff
        tariff lookup: code name base_fee unit_price
        tariff_zone line(tariff): start_time:time price
        meter_reading log: read_on reading source:status | meter reader>field_worker?
        field_worker master: full_name phone | grid_area
        bill doc: number period_from period_to amount paid:flag | supply_contract
        bill_position line(bill): consumption amount | tariff_zone?
        outage doc: started_at ended_at? households:quantity | substation cause?
        cause lookup: name
        repair_visit doc: visited_at minutes | outage field_worker
        power_plant master: name power fuel:status commissioned_on | grid_area
        generation slot(power_plant): volume price
        complaint doc: received_on text closed_on? | consumer handled_by>field_worker?
        payment doc: paid_on amount channel | bill
    """,
    "telecom": """
        subscriber master: first_name last_name email? birth_date street city_name | dealer? household_head>subscriber?
        dealer master: name city_name commission | upline>dealer?
        rate_plan lookup: code name monthly_fee minutes data_volume
        sim_card master: iccid:docno activated_on status | subscriber? handset?
        handset master: imei:docno | handset_model
        handset_model lookup: maker_name:label name price
        phone_line master: number activated_on | subscriber rate_plan sim_card?
        add_on lookup: name price
        line_add_on link(phone_line,add_on): since:date until:date
        cell_tower master: latitude longitude height | network_region
        network_region lookup: name
        cell line(cell_tower): azimuth:quantity band:status
        call_record log: started_at duration charge | calling_line>phone_line called_line>phone_line? cell?
        data_session log: started_at volume | phone_line cell_tower
        bill_run lookup: run_date status
        invoice doc: total due_date paid_on? | subscriber bill_run
        invoice_detail line(invoice): amount text | phone_line? add_on?
        roaming_partner lookup: code name
        roaming_record log: at duration charge | phone_line roaming_partner
        trouble_ticket doc: opened_at closed_at? severity text | phone_line technician?
        technician master: full_name skill_name:status | network_region
        port_request doc: requested_on completed_on? | phone_line previous_operator>roaming_partner
    """,
    "farming": """
        farm master: name area founded_on | district owner>farmer
        district lookup: name
        farmer master: full_name phone birth_date?
        field master: name area soil:status latitude longitude | farm
        crop lookup: name days_to_harvest:duration | crop_family
        crop_family lookup: name
        planting doc: planted_on seed_amount:float area | field crop variety?
        variety lookup: name yield_index:float | crop
        harvest doc: harvested_on weight moisture:percent | planting silo?
        silo master: capacity | farm
        treatment doc: applied_on dose | planting agent applied_by>farmer
        agent lookup: name danger_class:status wait_days:duration
        animal master: ear_tag:docno birth_date gender weight? | breed farm mother>animal? father>animal?
        breed lookup: name
        milking log: milked_at volume fat:percent | animal milking_robot?
        milking_robot lookup: serial_number
        vet_visit doc: visited_on diagnosis:text cost | animal vet
        vet lookup: full_name phone
        feed_type lookup: name price
        feed_ration link(breed,feed_type): amount:float
        sale doc: sold_on amount | farm buyer
        buyer lookup: name city_name
        sale_line line(sale): weight price | harvest?
        weather_record slot(district): temperature rain:float
    """,
    "fleet": """
        vehicle_class lookup: code name daily_rate
        station master: name street city_name | station_manager>agent?
        vehicle master: plate vin color mileage bought_on | vehicle_class current_station>station
        renter master: first_name last_name licence_number:docno birth_date email points | corporate_account?
        corporate_account lookup: name discount
        booking doc: booked_at pickup_date return_date status | renter vehicle_class pickup_station>station \
            return_station>station
        rental doc: out_at in_at? start_mileage end_mileage deposit | booking? vehicle renter opened_by>agent \
            closed_by>agent?
        agent master: full_name hired_on | station
        extra lookup: name price
        rental_extra link(rental,extra): quantity price
        damage doc: noted_on description cost | rental body_part
        body_part lookup: name
        service_visit doc: visited_on mileage cost | vehicle workshop
        workshop lookup: name phone
        service_item line(service_visit): amount hours | service_task
        service_task lookup: name
        fine doc: issued_on amount offence:text | rental
        fuel_receipt log: filled_at volume amount | vehicle station?
        transfer_trip doc: started_at finished_at? | vehicle from_station>station to_station>station driver>agent
    """,
    "airline": """
        country lookup: code name
        airport lookup: code name latitude longitude | country
        aircraft_model lookup: code name seats range:quantity
        aircraft master: tail_number:docno delivered_on hours | aircraft_model base_airport>airport
        seat line(aircraft): cabin:status window:flag
        service_route master: flight_number:code distance | origin>airport destination>airport
        flight doc: flight_date departed_at? arrived_at? status delay_minutes | service_route aircraft \
            captain>crew_member first_officer>crew_member?
        crew_member master: first_name last_name licence_number:docno base:status hired_on | home_airport>airport
        crew_assignment link(flight,crew_member): duty:status
        traveller master: first_name last_name passport_number:docno birth_date email? | nationality>country \
            loyalty_tier?
        loyalty_tier lookup: name points_needed:quantity
        reservation doc: locator:code booked_at total | traveller agency?
        agency lookup: name city_name
        ticket line(reservation): number fare:money status | flight traveller
        boarding_pass sub(ticket): issued_at gate | seat
        baggage doc: tag_number:docno weight | ticket
        fare_class lookup: code name
        fare_rule link(service_route,fare_class): price refundable:flag
        maintenance_check doc: started_on finished_on? hours | aircraft hangar_airport>airport
        defect line(maintenance_check): description fixed:flag | found_by>crew_member?
        meal_choice link(flight,meal): quantity
        meal lookup: name
    """,
    "laboratory": """
        study master: title start_date end_date? budget status | sponsor principal>researcher
        sponsor lookup: name city_name
        researcher master: full_name email degree:status | department
        department lookup: name | head>researcher?
        site master: name city_name | coordinator>researcher?
        study_site link(study,site): opened_on target_count
        subject master: screening_number:docno birth_date gender consent_date | study site arm?
        arm lookup: code description
        visit slot(subject): weight pressure
        visit_finding line(visit): value:float | test_parameter
        test_parameter lookup: code name unit:status low_limit:float high_limit:float
        sample master: barcode taken_at volume | subject freezer? parent_sample>sample?
        freezer lookup: name temperature
        freezer_slot line(freezer): shelf:small
        assay master: name version | instrument
        instrument master: serial_number name calibrated_on | department
        run doc: started_at finished_at? status | assay operator>researcher
        result line(run): value:float flagged:flag | sample test_parameter
        reagent master: lot_number:docno expiry_date | assay
        adverse_event doc: started_on severity outcome? | subject reported_by>researcher
        publication doc: title year doi:code | study
        authorship link(publication,researcher): position
        query_note log: raised_at body | result raised_by>researcher answered_by>researcher?
    """,
}
