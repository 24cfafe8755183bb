"""Domains of services and software: sales, help desk, projects, forum, marketing, clinics for pets, courses, flows."""

from __future__ import annotations

DOMAINS = {
    "sales": """
        territory lookup: name | parent_territory>territory? manager>sales_rep?
        sales_rep master: first_name last_name email quota:money hired_on | territory? team_lead>sales_rep?
        industry lookup: name
        account master: name website? employees:quantity revenue? phone | industry? territory owner>sales_rep \
            parent_account>account?
        contact master: first_name last_name email phone? job_title:label | account? reports_to>contact?
        lead doc: full_name company_name:label email score created_at | lead_source owner>sales_rep? \
            converted_account>account? converted_contact>contact?
        lead_source lookup: name
        pipeline_stage lookup: name position probability
        opportunity doc: name amount close_date created_at | account pipeline_stage owner>sales_rep campaign? \
            primary_contact>contact?
        opportunity_product line(opportunity): quantity price | product
        product master: code name list_price:money active | product_family
        product_family lookup: name
        price_book lookup: name currency_code:code
        price_book_entry link(price_book,product): price
        quote doc: number issued_on valid_until total | opportunity prepared_by>sales_rep
        quote_line line(quote): quantity price discount | product
        campaign master: name start_date end_date? budget channel | parent_campaign>campaign?
        campaign_member link(campaign,contact): responded:flag
        activity log: at kind:status subject minutes? | contact? account? performed_by>sales_rep
        contract doc: number signed_on months:duration value | account signed_by>contact? opportunity?
        forecast slot(sales_rep): amount
        competitor lookup: name website
        opportunity_competitor link(opportunity,competitor): threat:small
        visit_report doc: visited_on body | account sales_rep
    """,
    "help_desk": """
        agent master: full_name email active | team tier? mentor>agent?
        tier lookup: name
        team lookup: name | lead>agent?
        requester master: full_name email language_name | organization?
        organization master: name domain_name:url | account_manager>agent? sla_policy?
        sla_policy lookup: name response_minutes:duration
        issue_kind lookup: name | parent_kind>issue_kind?
        channel lookup: name
        severity lookup: name position
        ticket doc: number subject opened_at solved_at? status | requester assignee>agent? issue_kind severity \
            channel merged_into>ticket?
        reply line(ticket): body sent_at internal:flag | author>agent?
        ticket_tag link(ticket,tag): tagged_at
        tag lookup: name color
        status_change log: changed_at old_status:status new_status:status | ticket changed_by>agent
        article master: title body views published_at? | author>agent issue_kind? reviewed_by>agent?
        article_vote log: at helpful:flag | article requester?
        survey_answer sub(ticket): score comment? answered_at
        working_hour slot(agent): hours
        macro lookup: title body | created_by>agent
        asset master: serial_number name bought_on | assigned_to>requester? asset_model
        asset_model lookup: name maker_name:label
        change_request doc: title planned_at risk:status | requested_by>agent approved_by>agent? asset?
    """,
    "projects": """
        client lookup: name city_name
        member master: full_name email capacity_hours:duration | squad? line_manager>member?
        squad lookup: name
        project master: key_code:code name start_date end_date? budget | client? owner>member parent_project>project?
        project_member link(project,member): since:date allocation:percent | project_role
        project_role lookup: name rate
        milestone line(project): name due_date done:flag
        iteration master: name start_date end_date goal:text? | project
        issue_type lookup: name icon:url
        issue doc: summary:label description points? created_at resolved_at? | project issue_type priority_level \
            reporter>member assignee>member? iteration? epic>issue? milestone?
        priority_level lookup: name position
        issue_link link(source_issue>issue,target_issue>issue): kind:status
        component line(project): name | component_lead>member?
        label lookup: name color
        issue_label link(issue,label): added_at
        work_log log: started_at minutes comment? | issue member
        comment doc: body created_at | issue author>member reply_to>comment?
        attachment doc: file_name:label bytes:big uploaded_at | issue uploaded_by>member
        risk doc: description probability impact:small | project owner>member
        expense doc: spent_on amount category:status | project member approved_by>member?
        customer_invoice doc: number issued_on amount | project client
        deployment log: at version_name:code outcome | project triggered_by>member
        absence slot(member): hours
    """,
    "forum": """
        profile master: username:label email joined_at reputation:quantity last_seen_at? website? | invited_by>profile?
        board lookup: name description position | parent_board>board? moderator>profile?
        thread doc: title opened_at views pinned:flag | board starter>profile accepted_answer>post?
        post doc: body posted_at score | thread author>profile parent_post>post? edited_by>profile?
        reaction link(post,profile): kind:status reacted_at
        topic lookup: name | synonym_of>topic?
        thread_topic link(thread,topic): added_at
        medal lookup: name tier:status
        profile_medal link(profile,medal): awarded_at
        private_message log: sent_at read_at? body | sender>profile recipient>profile
        friendship link(requester>profile,accepter>profile): since:date
        report_flag doc: reason flagged_at | post flagged_by>profile resolved_by>profile?
        poll sub(thread): question:label closes_at
        poll_option line(poll): text
        poll_vote link(poll_option,profile): at
        ban doc: started_at ended_at? reason | profile banned_by>profile
        page_view log: at ip | thread profile?
        subscription link(profile,board): since:date
        edit_history line(post): body edited_at | editor>profile
        bookmark link(profile,thread): saved_at
    """,
    "marketing": """
        advertiser lookup: name | agency? parent_advertiser>advertiser?
        agency lookup: name
        campaign master: name start_date end_date? budget status | advertiser objective planner>marketer
        objective lookup: name
        marketer master: full_name email
        ad_group master: name bid:money | campaign
        creative master: name url format:status | advertiser designed_by>marketer?
        ad link(ad_group,creative): active weight:percent
        keyword lookup: text match_type:status
        ad_group_keyword link(ad_group,keyword): bid:money
        publisher lookup: name domain_name:url
        placement line(publisher): name width height
        audience master: name size:quantity rule:json?
        campaign_audience link(campaign,audience): included:flag
        visitor master: cookie:hash first_seen_at device:status | geo_region?
        geo_region lookup: code name
        impression log: at cost | ad placement visitor
        click log: at landing_url | ad visitor
        conversion doc: at revenue | visitor campaign first_touch_campaign>campaign? last_touch_campaign>campaign?
        experiment master: name started_on ended_on? | owner>marketer
        experiment_variant line(experiment): name share
        exposure log: at | experiment_variant visitor
        daily_spend slot(ad_group): cost clicks views
        email_blast doc: subject sent_at recipients:count | campaign audience
        newsletter_event log: at kind:status | email_blast visitor
    """,
    "veterinary": """
        species lookup: name
        breed lookup: name | species
        keeper master: first_name last_name phone street email?
        pet master: name birth_date? gender chip_number:docno weight | breed keeper dam>pet? sire>pet?
        vet master: full_name licence_number:docno | practice
        practice lookup: name city_name
        consultation doc: starts_at minutes reason:text fee | pet vet referred_by>vet?
        vaccine lookup: name months_valid:duration
        vaccination doc: given_on batch_number:docno | pet vaccine vet
        treatment_code lookup: code name price
        consultation_item line(consultation): quantity price | treatment_code
        medicine master: name stock unit_price | producer
        producer lookup: name
        dispense doc: dispensed_on quantity | consultation medicine
        invoice doc: number issued_on total paid:flag | keeper practice
        invoice_line line(invoice): amount text | consultation_item?
        weight_record slot(pet): weight
        boarding_stay doc: start_date end_date | pet cage
        cage lookup: code size
        reminder log: sent_at channel | keeper vaccination?
    """,
    "learning": """
        subject_area lookup: name | parent_area>subject_area?
        instructor master: full_name email biography:text? rating
        course master: title price published_on hours level | subject_area instructor previous_course>course?
        chapter line(course): title
        lecture line(chapter): title seconds
        learner master: full_name email joined_at | employer?
        employer lookup: name
        enrolment link(learner,course): enrolled_at progress:percent completed_at? | coupon?
        coupon lookup: code percent
        lecture_progress link(learner,lecture): watched_seconds:quantity done:flag
        quiz master: title pass_score:score | chapter
        question line(quiz): text points
        choice line(question): text correct:flag
        attempt doc: started_at score passed:flag | quiz learner
        attempt_answer link(attempt,question): | choice
        certificate doc: issued_on serial_number | learner course signed_by>instructor
        discussion doc: title body created_at | lecture learner
        discussion_reply line(discussion): body created_at | author>learner?
        payout doc: period_month:month amount | instructor
        cart_item link(learner,course): added_at
        learning_path lookup: title
        path_course link(learning_path,course): position
    """,
    "workflow": """
        app_user master: login_name:label email active last_login_at? | unit? deputy>app_user?
        unit lookup: code name | parent_unit>unit? head>app_user?
        permission lookup: code description
        app_role lookup: name
        role_permission link(app_role,permission): granted_on
        user_app_role link(app_user,app_role): valid_from | assigned_by>app_user?
        process_definition master: key_code:code version name deployed_at | owner>app_user
        step_definition line(process_definition): name kind:status
        transition link(from_step>step_definition,to_step>step_definition): condition:text?
        process_instance doc: started_at ended_at? state | process_definition started_by>app_user \
            super_instance>process_instance?
        task doc: created_at due_date? completed_at? priority | process_instance step_definition assignee>app_user? \
            candidate_unit>unit?
        form_field line(step_definition): label data_type:status required:flag
        field_value link(task,form_field): value_text:label
        document master: title mime_type:status bytes:big | folder created_by>app_user checked_out_by>app_user?
        folder lookup: name | parent_folder>folder?
        document_version line(document): checksum created_at | created_by>app_user
        notification log: sent_at read_at? message | recipient>app_user task?
        job_run log: started_at finished_at? outcome message? | scheduled_job
        scheduled_job lookup: name schedule:code enabled
        error_log log: at message severity | app_user?
        setting_value lookup: name value:label
        calendar_day lookup: day holiday:flag | unit?
    """,
}
