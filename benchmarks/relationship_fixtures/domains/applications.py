"""Domains in the manner of large applications: planning, relations, health records, content, catalogues, genomes.

Each is written from how such applications are modelled: subtypes with shared keys, lists of types for everything, link
tables, redirects of merged records, registrations by module, free attributes.
"""

from __future__ import annotations

DOMAINS = {
    "resource_planning": """
        legal_entity master: name short_code:code tax_number:docno founded_on:date? | country currency
        country lookup: code name
        currency lookup: code name decimals:small
        country_state lookup: name code | country
        account_user master: login:label first_name last_name email? job:label? admin:flag | legal_entity? \
            manager>account_user?
        user_group master: name note:text? | legal_entity
        user_group_member link(user_group,account_user): added_on:date
        right_definition lookup: label module:status |
        user_right link(account_user,right_definition): granted_on:date
        third_party master: name alias_name:label? client:flag provider:flag email? phone? zip? town:city? \
            outstanding_limit:money? | country? country_state? payment_term? price_level? \
            parent_third_party>third_party?
        price_level lookup: label
        contact_person master: first_name last_name phone? email? birthday? | third_party? country?
        payment_term lookup: code label days:small
        payment_mode lookup: code label
        bank_account master: reference:docno label bank_name:label iban? opening_balance:money | currency country?
        bank_line doc: operation_date:date value_date:date amount label | bank_account payment_mode? \
            reconciled_by>account_user?
        stock_place master: label description? | parent_place>stock_place? legal_entity
        item master: reference:docno label description? price weight? barcode? to_sell:flag to_buy:flag | \
            item_family? \
            tax_rate default_place>stock_place? account_sell>ledger_account? account_buy>ledger_account?
        item_family lookup: code label
        item_price line(item): price valid_on:date | price_level? changed_by>account_user
        item_stock link(item,stock_place): quantity
        stock_move log: moved_at:timestamp quantity label | item stock_place done_by>account_user?
        tax_rate lookup: rate:percent note:text? | country
        ledger_account master: number label | parent_account>ledger_account?
        quotation doc: reference:docno quotation_date:date end_date:date? total status:small note:text? | \
            third_party \
            payment_term? payment_mode? validated_by>account_user? signed_by>account_user?
        quotation_line line(quotation): description? quantity price tax:percent | item? parent_line>quotation_line?
        sale doc: reference:docno sale_date:date total status:small | third_party quotation? payment_term? \
            validated_by>account_user? closed_by>account_user?
        sale_line line(sale): description? quantity price | item?
        bill doc: reference:docno bill_date:date due_on:date total paid:flag | third_party sale? bank_account? \
            validated_by>account_user? replaced_bill>bill?
        bill_line line(bill): description? quantity price | item? tax_rate? ledger_account?
        bill_payment link(bill,payment): amount
        payment doc: paid_on:date amount number:docno? | bank_line? payment_mode
        dispatch doc: reference:docno sent_on:date tracking_number:docno? weight? | third_party sale? \
            dispatch_method? \
            delivered_to>contact_person?
        dispatch_method lookup: code label active:flag
        intervention doc: reference:docno description? duration | third_party project? validated_by>account_user?
        project master: reference:docno title budget? opened_on:date | third_party?
        project_task line(project): label planned:duration progress:percent | parent_task>project_task?
        task_time log: spent_on:date duration note:text? | project_task account_user
        agreement doc: reference:docno signed_on:date | third_party sales_follow_up>account_user \
            sales_signature>account_user
        agreement_line line(agreement): label opened:flag price | item? opened_by>account_user? \
            closed_by>account_user?
        expense_report doc: reference:docno from_date:date to_date:date total | account_user validator>account_user \
            approver>account_user?
        expense_line line(expense_report): comment:text? quantity price | expense_type project?
        expense_type lookup: code label
        absence doc: first_day:date last_day:date half_day:flag | account_user validator>account_user absence_type
        absence_type lookup: code label
        agenda_event doc: label starts_at:timestamp ends_at:timestamp? location:label? | agenda_type third_party? \
            contact_person? project? assigned_to>account_user? done_by>account_user?
        agenda_type lookup: code label
        menu_entry master: title url position target:label? | parent_entry>menu_entry?
        module_constant log: name value:label note:text? | legal_entity
        extra_field master: name label kind:status size:label? | legal_entity
    """,
    "relations": """
        contact master: display_name:label sort_name:label first_name? last_name? email? do_not_mail:flag \
            do_not_phone:flag \
            deceased:flag birth_date? | contact_kind prefix? suffix? gender? primary_contact>contact? \
            employer>contact?
        contact_kind lookup: name label active:flag | parent_kind>contact_kind?
        prefix lookup: label weight:small
        suffix lookup: label weight:small
        gender lookup: label
        street_address line(contact): street city_name zip? is_primary:flag | location_kind country? state_province?
        location_kind lookup: name active:flag
        country lookup: name iso_code:code | world_region?
        world_region lookup: name
        state_province lookup: name abbreviation | country
        mail_address line(contact): email is_primary:flag on_hold:flag | location_kind
        phone_number line(contact): phone extension:label? | location_kind phone_kind
        phone_kind lookup: label
        household sub(contact): nick_name:label? members:small
        organization sub(contact): legal_name:label tax_number:docno? industry:status?
        individual sub(contact): job_title:label? preferred_language:status?
        relationship_kind lookup: name_a_b:label name_b_a:label description?
        relationship doc: start_date? end_date? is_active:flag | contact_a>contact contact_b>contact relationship_kind
        circle master: name title description? is_reserved:flag |
        circle_contact link(circle,contact): status added_on:date?
        circle_nesting link(parent_circle>circle,child_circle>circle):
        label_tag lookup: name description? color:status? | parent_tag>label_tag?
        financial_kind lookup: name is_deductible:flag |
        financial_account master: name code? | financial_kind owner>contact?
        gift doc: received_at:timestamp total fee? net:money trxn_number:docno source:label? | contact \
            financial_kind \
            payment_instrument gift_status campaign? gift_page? recurring_gift?
        gift_status lookup: name weight:small
        payment_instrument lookup: label
        gift_page master: title intro:text? goal:money? start_date? | financial_kind created_by>contact?
        recurring_gift doc: amount interval:small frequency:status started:timestamp | contact payment_processor? \
            financial_kind
        payment_processor master: name url? is_test:flag | processor_kind
        processor_kind lookup: name title
        gift_soft link(gift,contact): amount
        pledge doc: amount installments:small start_date | contact financial_kind campaign?
        pledge_payment line(pledge): scheduled:money due_on:date | gift?
        membership_kind lookup: name fee duration | member_of>contact financial_kind
        membership_status lookup: name label weight:small is_current:flag
        membership doc: join_date:date start_date end_date? | contact membership_kind membership_status \
            owner_membership>membership?
        membership_log log: modified_date:date | membership membership_status modified_by>contact?
        membership_payment link(membership,gift):
        gathering master: title summary:text? starts_at:timestamp seats? fee_label:label? | gathering_kind venue? \
            created_by>contact? campaign?
        gathering_kind lookup: label
        venue master: name | street_address?
        attendee doc: registered_at:timestamp fee? is_test:flag | contact gathering attendee_status \
            registered_by>attendee?
        attendee_status lookup: name class
        mailing master: name subject from_name:label open_tracking:flag scheduled_on:timestamp? | \
            created_by>contact campaign? \
            header>mailing_part? footer>mailing_part?
        mailing_part lookup: name body:text
        mailing_job log: started:timestamp status | mailing
        mailing_event log: happened_at:timestamp | mailing_job contact mail_address?
        campaign master: name title goal:money? starts_on:date | campaign_kind parent_campaign>campaign? \
            created_by>contact?
        campaign_kind lookup: label
        engagement doc: subject happened_at:timestamp minutes:duration? details:text? | engagement_kind \
            engagement_status \
            priority? source_contact>contact? campaign?
        engagement_kind lookup: label
        engagement_status lookup: label
        priority lookup: label weight:small
        engagement_contact link(engagement,contact): record_type:small
        case_file doc: subject start_date end_date? | case_kind case_status
        case_kind lookup: name title
        case_status lookup: label
        case_contact link(case_file,contact):
        custom_group master: name title extends:status table_name:label | created_by>contact?
        custom_field line(custom_group): name label html_kind:status | option_group?
        option_group lookup: name title
        option_value line(option_group): label value:small is_active:flag
        saved_search master: form_values:text? |
        score_card master: name kind:status | saved_search?
    """,
    "health_records": """
        person master: gender:status birth_date? dead:flag death_date? | cause_of_death>concept?
        person_name line(person): given_name:first_name family_name:last_name preferred:flag
        person_address line(person): street? city_name? zip? preferred:flag
        person_attribute_kind lookup: name format:label? searchable:flag
        person_attribute line(person): value:label | person_attribute_kind
        patient sub(person): allergy_status:status
        caregiver master: identifier:docno name? | person? role>concept? speciality>concept?
        system_user master: username:label password:hash? | person
        access_role lookup: name description
        privilege lookup: name description
        role_privilege link(access_role,privilege):
        user_role link(system_user,access_role):
        role_role link(parent_role>access_role,child_role>access_role):
        patient_identifier line(patient): identifier:docno preferred:flag | identifier_kind site
        identifier_kind lookup: name format:label? required:flag
        site master: name description? city_name? | parent_site>site?
        site_tag lookup: name description
        site_tag_map link(site,site_tag):
        site_attribute_kind lookup: name datatype:label?
        site_attribute doc: value_reference:label | site attribute_kind>site_attribute_kind
        concept master: retired:flag short_label:label? version:small? | concept_class concept_datatype
        concept_class lookup: name description
        concept_datatype lookup: name abbreviation:code
        concept_name line(concept): name locale:status locale_preferred:flag
        concept_description line(concept): description locale:status
        concept_answer line(concept): sort_weight:float? | answer_concept>concept? answer_drug>drug?
        concept_set line(concept): sort_weight:float? | set_concept>concept
        concept_numeric sub(concept): high_normal:float? low_normal:float? units:status? precise:flag
        concept_complex sub(concept): handler:label
        concept_source lookup: name code description
        concept_map_kind lookup: name is_hidden:flag
        concept_reference_term master: code name? version:small? | concept_source
        concept_reference_map line(concept): | concept_reference_term concept_map_kind
        concept_attribute_kind lookup: name datatype:label?
        concept_attribute doc: value_reference:label | concept attribute_kind>concept_attribute_kind
        drug master: name strength:label? combination:flag | concept dosage_form>concept? route>concept?
        drug_ingredient link(drug,ingredient>concept): strength:float? | units>concept?
        visit_kind lookup: name description
        visit doc: started_at:timestamp stopped_at:timestamp? | patient visit_kind site? indication>concept?
        visit_attribute_kind lookup: name datatype:label?
        visit_attribute doc: value_reference:label | visit attribute_kind>visit_attribute_kind
        meeting_kind lookup: name description
        meeting doc: met_at:timestamp | meeting_kind patient site? form? visit?
        meeting_role lookup: name description
        meeting_caregiver doc: | meeting caregiver meeting_role
        observation doc: observed_at:timestamp value_numeric:float? value_text:text? value_datetime:timestamp? \
            comments:text? | \
            person concept meeting? medical_order? site? group>observation? value_coded>concept? value_drug>drug? \
            previous_version>observation?
        form master: name version:label published:flag xslt:text? | meeting_kind?
        form_resource line(form): name value_reference:label
        field master: name description? table_name:label? select_multiple:flag | field_kind concept?
        field_kind lookup: name is_set:flag
        form_field doc: field_number:small? page_number:small? required:flag | form field \
            parent_form_field>form_field?
        order_kind lookup: name java_class:label
        care_setting lookup: name kind:status
        order_frequency lookup: frequency_per_day:float | concept
        medical_order doc: activated_at:timestamp expires_at:timestamp? urgency:status instructions:text? | \
            order_kind concept \
            orderer>caregiver meeting? patient care_setting previous_order>medical_order? order_reason>concept?
        drug_order sub(medical_order): dose:float? as_needed:flag quantity:float? | drug? dose_units>concept? \
            route>concept? frequency>order_frequency?
        test_order sub(medical_order): laterality:status? clinical_history:text? | specimen_source>concept? \
            frequency>order_frequency?
        program master: name description? retired:flag | concept outcomes_concept>concept?
        program_workflow master: retired:flag | program concept
        program_workflow_state master: initial:flag terminal:flag | program_workflow concept
        patient_program doc: enrolled_at:date completed_at:date? | patient program site? outcome_concept>concept?
        patient_state log: start_date? end_date? | patient_program state>program_workflow_state
        cohort master: name description |
        cohort_member link(cohort,patient): start_date:date end_date:date?
        allergy doc: severity:status? comments:text? | patient allergen>concept severity_concept>concept? meeting?
        allergy_reaction line(allergy): reaction_text:label? | reaction_concept>concept
        condition doc: onset_date:date? end_date? clinical_status:status | patient concept? \
            previous_version>condition? meeting?
        relationship_kind lookup: a_is_to_b:label b_is_to_a:label preferred:flag
        relation doc: start_date? end_date? | person_a>person person_b>person relationship_kind
        queue_message log: message:text received_at:timestamp state:small | source_site>site?
        serialized_object doc: name kind:label data:text |
        scheduled_task master: name class_name:label start_at:timestamp? repeat_interval:duration? enabled:flag
        scheduled_task_property line(scheduled_task): name value:label
        global_setting log: property:label value:label? description?
        notification doc: text? satisfied_by_any:flag expires_at:timestamp? |
        notification_recipient link(notification,system_user): read:flag
    """,
    "content_management": """
        site_user master: login:label nice_name:label email registered_at:timestamp status:small display_name:label
        user_setting line(site_user): setting_key:label setting_value:label?
        article doc: title body:text excerpt:text? slug:label published_at:timestamp menu_order:small \
            comment_count:count \
            article_kind:status password:label? | author>site_user parent_article>article? template?
        article_setting line(article): setting_key:label setting_value:label?
        article_revision line(article): body:text revised_at:timestamp minor:flag | editor>site_user? \
            parent_revision>article_revision?
        remark doc: body:text approved:flag remarked_at:timestamp agent:label? author_name:label? author_ip:ip | \
            article \
            site_user? parent_remark>remark?
        term master: name slug:label term_group:small
        taxonomy lookup: name hierarchical:flag
        term_taxonomy master: description? article_count:count | term taxonomy parent_term>term_taxonomy?
        term_assignment link(article,term_taxonomy): term_order:small
        bookmark master: url title image:url? rating:small visible:flag | owner>site_user?
        menu master: name location:label?
        menu_item line(menu): title url? | article? parent_item>menu_item?
        template lookup: name file:label
        block master: module:label delta:small title? weight:small | region?
        region lookup: name theme:label
        media_file master: file_name:label uri:url mime:status bytes:big created_at:timestamp | uploaded_by>site_user
        media_usage doc: used_as:label usage_count:small | media_file article?
        article_kind_definition lookup: name module:label help:text?
        field_definition master: field_name:label field_kind:status locked:flag cardinality:small
        field_instance doc: label required:flag weight:small | field_definition article_kind_definition
        role lookup: name weight:small
        role_permission line(role): permission:label module:label
        user_role link(site_user,role):
        session_log log: session:hash hostname:ip at:timestamp | site_user?
        audit_entry log: kind:label message:text severity:small at:timestamp location:url | site_user?
        language lookup: code name native:label direction:small enabled:flag weight:small
        translation_source master: source:text context:label? location:url?
        translation_target link(translation_source,language): translation:text plural:small
        url_alias master: source:url alias:url | language?
        redirect master: from_path:url to_path:url status_code:small | language? created_by>site_user?
        forum master: name description? position:small topics:count posts:count | parent_forum>forum? \
            category>forum_category
        forum_category lookup: name position:small
        topic doc: subject views:count replies:count sticky:flag closed:flag at:timestamp | forum starter>site_user \
            first_post>post? last_post>post? moved_to>topic?
        post doc: subject? message:text at:timestamp poster_ip:ip | topic poster>site_user edited_by>site_user?
        poll master: question:label closes_at:timestamp? | topic
        poll_option line(poll): label votes:count
        poll_vote link(poll_option,site_user): at:timestamp
        subscription link(site_user,topic): notified:flag
        private_message doc: subject body:text sent_at:timestamp | sender>site_user recipient>site_user
        ban master: reason:text? until:timestamp? ip? | site_user? banned_by>site_user
        course master: full_name:label short_name:label id_number:docno? visible:flag start_date | course_category
        course_category lookup: name depth:small path:label | parent_category>course_category?
        course_section line(course): name? summary:text? visible:flag
        activity_module lookup: name version:small cron:small
        course_module master: instance:small visible:flag | course activity_module course_section?
        enrolment doc: status:small started_at:timestamp? ended_at:timestamp? | course site_user modifier>site_user?
        grade_item master: item_name:label? maximum:float minimum:float | course grade_category? scale?
        grade_category master: full_name:label depth:small | course parent_category>grade_category?
        grade_mark doc: raw_grade:float? final_grade:float? feedback:text? | grade_item site_user \
            user_modified>site_user?
        grade_mark_history log: action:small final_grade:float? at:timestamp | old>grade_mark grade_item? \
            site_user? logged_user>site_user?
        scale lookup: name scale:label | course?
        question_bank master: name question_text:text default_mark:float | question_category created_by>site_user? \
            modified_by>site_user?
        question_category lookup: name info:text? | parent_category>question_category?
        question_answer line(question_bank): answer:text fraction:float
        quiz master: name intro:text? time_open:timestamp? attempts:small | course
        quiz_slot line(quiz): page:small maximum_mark:float | question_bank
        quiz_attempt doc: attempt:small state:status started_at:timestamp sum_grades:float? | quiz site_user
        badge master: name issuer_name:label expire_date:timestamp? | course? user_created>site_user \
            user_modified>site_user
        badge_issued doc: unique_hash:hash issued_at:timestamp | badge site_user
    """,
    "media_catalogue": """
        performer master: gid:guid name sort_name:label begin_year:year? end_year:year? ended:flag comment:label | \
            kind>performer_kind? region? gender? \
            begin_region>region? end_region>region?
        performer_kind lookup: name description? child_order:small | parent>performer_kind?
        gender lookup: name description? child_order:small
        performer_alias line(performer): name sort_name:label locale:status? primary_for_locale:flag | \
            kind>performer_alias_kind?
        performer_alias_kind lookup: name child_order:small | parent>performer_alias_kind?
        performer_credit master: name artist_count:small ref_count:small
        performer_credit_name line(performer_credit): name join_phrase:label | performer
        performer_redirect log: gid:guid | new>performer
        performer_note line(performer): text? changelog:label? | editor
        region master: gid:guid name ended:flag comment:label | kind>region_kind?
        region_kind lookup: name description? | parent>region_kind?
        region_alias line(region): name locale:status? | kind>region_alias_kind?
        region_alias_kind lookup: name
        region_redirect log: gid:guid | new>region
        country_region sub(region): iso_code:code
        label_company master: gid:guid name label_code:small? ended:flag comment:label | kind>label_company_kind? \
            region?
        label_company_kind lookup: name | parent>label_company_kind?
        label_company_redirect log: gid:guid | new>label_company
        release_group master: gid:guid name comment:label | performer_credit kind>release_group_primary_kind?
        release_group_primary_kind lookup: name | parent>release_group_primary_kind?
        release_group_secondary_kind lookup: name | parent>release_group_secondary_kind?
        release_group_secondary_kind_join link(release_group,secondary_kind>release_group_secondary_kind): \
            created_at:timestamp
        release_group_meta sub(release_group): release_count:small first_year:year? rating:small?
        release_group_redirect log: gid:guid | new>release_group
        release master: gid:guid name barcode? comment:label quality:small | performer_credit release_group \
            status>release_status? \
            packaging>release_packaging? language? script?
        release_status lookup: name description? | parent>release_status?
        release_packaging lookup: name description? | parent>release_packaging?
        release_country link(release,country_region): date_year:year? date_month:small?
        release_label doc: catalog_number:docno? | release label>label_company?
        release_meta sub(release): date_added:timestamp? info_url:url?
        release_redirect log: gid:guid | new>release
        medium line(release): name track_count:small | format>medium_format?
        medium_format lookup: name year? has_discids:flag | parent>medium_format?
        recording master: gid:guid name length:duration? video:flag comment:label | performer_credit
        recording_redirect log: gid:guid | new>recording
        track line(medium): gid:guid name number:label length:duration? is_data:flag | recording performer_credit
        work master: gid:guid name comment:label | kind>work_kind?
        work_kind lookup: name | parent>work_kind?
        work_attribute_kind lookup: name free_text:flag | parent>work_attribute_kind?
        work_attribute_value master: value:label | kind>work_attribute_kind
        work_attribute doc: text? | work kind>work_attribute_kind value>work_attribute_value?
        work_language link(work,language): created_at:timestamp
        language lookup: iso_code:code name frequency:small
        script lookup: iso_code:code name frequency:small
        venue master: gid:guid name address:street? ended:flag | kind>venue_kind? region?
        venue_kind lookup: name | parent>venue_kind?
        happening master: gid:guid name time:time? cancelled:flag | kind>happening_kind?
        happening_kind lookup: name | parent>happening_kind?
        series master: gid:guid name comment:label | kind>series_kind ordering_attribute>link_text_attribute_kind?
        series_kind lookup: name entity_type:status | parent>series_kind?
        link_kind master: gid:guid name entity_type0:status entity_type1:status link_phrase:label | parent>link_kind?
        link_set master: begin_year:year? ended:flag attribute_count:small | link_kind
        link_attribute_kind master: gid:guid name | parent>link_attribute_kind? root>link_attribute_kind
        link_text_attribute_kind sub(link_attribute_kind):
        link_attribute link(link_set,attribute_kind>link_attribute_kind): created_at:timestamp
        link_kind_attribute_kind link(link_kind,attribute_kind>link_attribute_kind): minimum:small? maximum:small?
        bond_performer_recording doc: link_order:small entity0_credit:label | link_set entity0>performer \
            entity1>recording
        bond_performer_work doc: link_order:small | link_set entity0>performer entity1>work
        bond_performer_performer doc: link_order:small | link_set entity0>performer entity1>performer
        bond_recording_work doc: link_order:small | link_set entity0>recording entity1>work
        bond_region_region doc: link_order:small | link_set entity0>region entity1>region
        bond_release_group_series doc: link_order:small | link_set entity0>release_group entity1>series
        bond_venue_happening doc: link_order:small | link_set entity0>venue entity1>happening
        editor master: name privileges:small email? bio:text? member_since:timestamp | gender? region?
        editor_preference line(editor): name value:label
        editor_subscribe_performer doc: available:flag | editor performer last_edit>edit
        editor_subscribe_editor doc: | editor subscribed_editor>editor last_edit>edit
        edit doc: kind:small status:small autoedit:small opened_at:timestamp closed_at:timestamp? | editor language?
        edit_note doc: text at:timestamp | editor edit
        edit_performer link(edit,performer): status:small
        edit_release link(edit,release):
        vote doc: vote:small at:timestamp superseded:flag | editor edit
        tag master: name ref_count:small
        performer_tag link(performer,tag): count:small last_updated:timestamp
        performer_tag_raw link(performer,editor,tag): is_upvote:flag
        release_group_tag link(release_group,tag): count:small
        genre master: gid:guid name comment:label
        rating_raw link(editor,recording): rating:small
        collection master: gid:guid name public:flag description? | editor kind>collection_kind
        collection_kind lookup: name entity_type:status | parent>collection_kind?
        collection_release link(collection,release): added_at:timestamp? position:small
        image_kind lookup: mime:status suffix:label
        cover_art_kind lookup: name | parent>cover_art_kind?
        cover_art doc: comment:label uploaded_at:timestamp ordering:small | release edit image_kind
        cover_art_classified link(cover_art,kind>cover_art_kind):
    """,
    "genomics": """
        species master: scientific_name:label taxon:small common_name:label?
        assembly_level lookup: name version:label rank:small sequence_level:flag | species
        sequence_region master: name length:big | assembly_level
        sequence_region_synonym line(sequence_region): synonym:label | external_source?
        region_attribute log: value:label | sequence_region attribute_kind
        attribute_kind lookup: code name description?
        attribute_term master: value:label | attribute_kind
        attribute_set link(attribute_term,grouping>attribute_kind): rank:small
        external_source lookup: name version:label? url? somatic:flag data_types:status?
        cross_reference master: accession:docno display_label:label description? | external_source
        analysis lookup: logic_name:label created_at:timestamp program:label? parameters:text?
        analysis_description sub(analysis): display_label:label displayable:flag description:text?
        gene master: stable_name:docno start_position:big end_position:big strand:small biotype:status \
            version:small | \
            sequence_region analysis display_reference>cross_reference? canonical_transcript>transcript?
        gene_attribute log: value:label | gene attribute_kind
        gene_name line(gene): name
        transcript master: stable_name:docno start_position:big end_position:big strand:small biotype:status | gene \
            sequence_region analysis display_reference>cross_reference? canonical_translation>translation?
        transcript_attribute log: value:label | transcript attribute_kind
        exon master: stable_name:docno start_position:big end_position:big phase:small constitutive:flag | \
            sequence_region
        exon_transcript link(exon,transcript): rank:small
        translation master: stable_name:docno start_offset:small end_offset:small | transcript start_exon>exon \
            end_exon>exon
        translation_digest master: digest:hash
        protein_feature doc: start_position:small end_position:small hit_name:label score? | translation analysis
        supporting_feature link(exon,alignment_feature):
        alignment_feature doc: start_position:big end_position:big hit_name:label score | sequence_region analysis \
            external_source?
        simple_feature doc: start_position:big end_position:big display_label:label score? | sequence_region analysis
        repeat_consensus lookup: name class consensus:text?
        repeat_feature doc: start_position:big end_position:big score? | sequence_region analysis repeat_consensus
        variant master: name allele_frequency:float? somatic:flag flipped:flag clinical:status? \
            minor_allele:status? | source class_term>attribute_term?
        source lookup: name version:label? description? somatic:flag
        variant_synonym line(variant): name | source
        variant_feature doc: start_position:big end_position:big map_weight:small variant_name:label \
            consequence:status | variant sequence_region source class_term>attribute_term?
        variant_set lookup: name description? | short_name_term>attribute_term
        variant_set_member link(variant,variant_set):
        variant_set_structure link(super_set>variant_set,sub_set>variant_set):
        variant_attribute doc: value:label | variant attribute_term
        variant_citation link(variant,publication): data_source:status?
        publication master: title authors:label year? doi:docno?
        allele_code master: allele:label
        allele doc: frequency:float? count? | variant allele_code population? submitter?
        genotype_code line(allele_code): copy_number:small phased:flag
        population master: name size:small? description? collection:flag | display_group?
        display_group lookup: name priority:small
        population_synonym line(population): name | source
        population_structure link(super_population>population,sub_population>population):
        population_genotype doc: frequency:float? count? | variant population genotype_group?
        genotype_group lookup: code name
        individual master: name description? gender:status | father>individual? mother>individual? individual_kind
        individual_kind lookup: name description
        individual_synonym line(individual): name | source
        sample master: name description? has_coverage:flag display:status | individual study?
        sample_synonym line(sample): name | source
        sample_population link(sample,population):
        sample_genotype log: genotype_text:label? | variant sample genotype_group?
        read_coverage log: start_position:big end_position:big level:small | sequence_region sample
        study master: name description? url? external_reference:docno? | source
        associated_study link(study_a>study,study_b>study):
        phenotype master: stable_name:docno? name? description?
        phenotype_feature doc: kind:status object_label:label significant:flag start_position:big end_position:big \
            | phenotype source study? sequence_region
        phenotype_feature_attribute log: value:label | phenotype_feature attribute_kind
        phenotype_ontology line(phenotype): accession:docno mapping_score:float? | mapped_by>attribute_term?
        regulatory_feature doc: start_position:big end_position:big feature_kind:status | sequence_region epigenome?
        epigenome lookup: name gender:status? description?
        motif_feature doc: start_position:big end_position:big score | sequence_region
        motif_feature_variant doc: consequence:status | variant_feature motif_feature
        regulatory_feature_variant doc: consequence:status | variant_feature regulatory_feature
        transcript_variant doc: consequence:status codon:label? | variant_feature transcript
        structural_variant master: name copy_number:small? somatic:flag | source study? class_term>attribute_term?
        structural_variant_feature doc: start_position:big end_position:big | structural_variant sequence_region \
            source
        structural_variant_sample doc: zygosity:small? | structural_variant sample?
        failed_description lookup: description:label
        failed_variant doc: | variant failed_description
        failed_allele doc: | allele failed_description
        failed_structural_variant doc: | structural_variant failed_description
        submitter lookup: handle:code description?
        submission doc: submitted_at:timestamp | variant submitter
        mapping_session master: old_release:label new_release:label created_at:timestamp
        stable_id_event link(mapping_session,gene): score
        gene_archive log: gene_name:docno version:small | mapping_session gene?
        meta_entry log: meta_key:label meta_value:label | species?
        meta_coordinates log: table_name:label maximum_length:big | assembly_level
        protein_prediction doc: prediction_matrix:text | translation_digest method>attribute_term
        karyotype_band doc: start_position:big end_position:big band:label stain:status | sequence_region
    """,
}
