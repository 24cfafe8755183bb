"""Domains of trade: shops, purchasing, auctions, subscriptions, restaurants, banking, insurance, accounting."""

from __future__ import annotations

DOMAINS = {
    "retail": """
        country lookup: code name
        currency lookup: code name symbol
        region lookup: name | country
        customer_group lookup: name discount
        customer master: first_name last_name email phone? birth_date? credit_limit points active | customer_group? \
            region? referred_by>customer?
        address master: street city_name postal_code latitude? longitude? | customer country
        brand lookup: name website?
        category lookup: name description? position | parent>category?
        supplier master: name contact_name phone payment_days | country
        product master: sku name description? price cost weight? stock active created_on | category brand? supplier? \
            replaced_by>product?
        product_variant line(product): color size barcode? price
        product_image line(product): url position
        tax_class lookup: name rate
        shop master: name city_name opened_on area | region manager>employee?
        employee master: first_name last_name hire_date salary gender? | shop? supervisor>employee?
        basket doc: started_at status | customer? shop
        purchase doc: number purchase_date status total freight? | customer billing_address>address \
            shipping_address>address employee? currency promotion?
        purchase_item line(purchase): quantity unit_price discount | product tax_class?
        payment doc: amount paid_at method reference_number? | purchase
        shipment doc: shipped_at delivered_at? tracking_number | purchase carrier ship_to>address?
        shipment_item line(shipment): quantity | purchase_item
        carrier lookup: name phone?
        return_case doc: returned_on reason refund_amount | purchase approved_by>employee?
        promotion master: name start_date end_date? percent
        promotion_product link(promotion,product): discount
        review doc: stars headline? body? created_at | product customer
        wish_list_entry link(customer,product): added_on priority
        stock_level link(shop,product): quantity reorder_level:quantity counted_on
        stock_movement log: moved_at quantity reason | product shop employee?
        price_history slot(product): price
        gift_card master: code balance issued_on | customer?
        loyalty_card sub(customer): card_number:docno points tier since:date
    """,
    "purchasing": """
        plant lookup: code name city_name
        company_code lookup: code name | currency
        currency lookup: code name
        unit_of_measure lookup: code name
        material_group lookup: code description
        vendor master: name tax_number street city_name payment_terms_days:duration blocked:flag | currency company_code
        vendor_contact line(vendor): full_name email phone?
        material master: number description weight? price status | material_group base_unit>unit_of_measure \
            order_unit>unit_of_measure?
        material_plant link(material,plant): safety_stock:quantity lead_days:duration
        vendor_material link(vendor,material): vendor_part_number:docno price minimum_quantity
        buyer lookup: full_name email
        requisition doc: number created_on priority status | plant requester>buyer
        requisition_item line(requisition): quantity need_date | material
        purchase_order doc: number order_date status total | vendor buyer company_code currency
        order_item line(purchase_order): quantity unit_price delivery_date | material plant requisition_item?
        schedule_line line(order_item): due_date quantity confirmed_quantity
        goods_receipt doc: received_on note_number:docno | plant received_by>buyer?
        goods_receipt_item line(goods_receipt): quantity | order_item storage_bin?
        storage_bin line(plant): aisle:small capacity
        vendor_invoice doc: invoice_number:docno invoice_date amount tax | vendor purchase_order?
        invoice_item line(vendor_invoice): quantity amount | order_item
        contract doc: number valid_from valid_until value | vendor signed_by>buyer
        quotation doc: quoted_on amount valid_until | vendor requisition
        cost_center lookup: code name | company_code
    """,
    "auction": """
        member master: username:label email joined_on rating country_name:city | inviter>member?
        category lookup: name | parent>category?
        item_condition lookup: name
        lot master: title description? start_price reserve_price? opened_at closed_at | seller>member category \
            item_condition winner>member?
        bid doc: amount bid_at ip | lot bidder>member
        watch link(member,lot): added_at
        photo line(lot): url
        feedback doc: score:rating comment? left_at | lot author>member recipient>member
        settlement doc: settled_on amount fee method | lot
        dispute doc: opened_on closed_on? outcome? | settlement moderator>member?
        message log: sent_at body | sender>member receiver>member lot?
        shipping_option lookup: name cost
        lot_shipping link(lot,shipping_option): price
    """,
    "subscriptions": """
        plan lookup: code name price interval_months:small active
        feature lookup: name description?
        plan_feature link(plan,feature): limit_value:quantity enabled
        tenant master: name domain_name:url created_at status | plan owner>account_user? parent>tenant?
        account_user master: full_name email password last_login_at? is_admin | tenant
        role lookup: name
        user_role link(account_user,role): granted_at | granted_by>account_user?
        subscription doc: started_on cancelled_on? status seats | tenant plan coupon?
        coupon lookup: code percent expires_on?
        invoice doc: number issued_on due_date total tax status | tenant subscription?
        invoice_line line(invoice): description quantity amount | plan?
        payment_method master: brand last_four:code expires_on | tenant
        charge doc: amount charged_at outcome | invoice payment_method?
        refund doc: amount refunded_at reason | charge
        api_key master: token created_at revoked_at? | tenant created_by>account_user
        usage_event log: at quantity metric_name:status | tenant feature account_user?
        webhook master: url enabled | tenant
        webhook_delivery log: sent_at response_code:small duration | webhook
        audit_entry log: at action:status ip payload? | account_user? tenant
        session log: token started_at ended_at? ip | account_user
        feature_flag link(tenant,feature): enabled changed_at | changed_by>account_user?
        workspace master: name color | tenant
        workspace_member link(workspace,account_user): joined_at role_name:status
        support_ticket doc: subject body opened_at closed_at? priority | tenant opened_by>account_user \
            assigned_to>account_user?
    """,
    "restaurant": """
        dining_area lookup: name
        dining_table master: seats | dining_area
        guest master: full_name phone? email? visits
        waiter master: first_name last_name hired_on | trained_by>waiter?
        shift slot(waiter): start_time:time hours
        reservation doc: reserved_for:timestamp party_size:small status | guest dining_table? taken_by>waiter?
        course lookup: name position
        dish master: name price calories:quantity vegetarian:flag | course
        ingredient master: name unit_cost stock:float | allergen? supplier?
        allergen lookup: name
        supplier lookup: name phone
        recipe link(dish,ingredient): amount:float unit:status
        menu master: name valid_from valid_until?
        menu_dish link(menu,dish): price position
        bill doc: opened_at closed_at? total tip:money | dining_table waiter reservation?
        bill_item line(bill): quantity price remark? | dish
        delivery doc: delivered_on cost | supplier
        delivery_item line(delivery): amount:float price | ingredient
    """,
    "banking": """
        branch master: name city_name opened_on | region manager>officer?
        region lookup: name
        officer master: first_name last_name grade | branch? superior>officer?
        party master: name created_on kind:status
        person sub(party): birth_date gender? income:money? | nationality>country
        organisation sub(party): registration_number:docno founded_on staff_count | country sector?
        sector lookup: code name
        country lookup: code name
        currency lookup: code name
        account_type lookup: name interest
        account master: iban opened_on closed_on? balance | party account_type currency branch
        account_holder link(account,party): since:date share
        card master: number expires_on status | account holder>party
        transfer doc: booked_at amount purpose:text | from_account>account to_account>account currency
        card_transaction log: at amount merchant_name:label | card merchant_category currency
        merchant_category lookup: code description
        loan doc: granted_on amount rate term_months:duration | borrower>party officer branch guarantor>party?
        instalment line(loan): due_date amount paid_on?
        collateral master: description value | loan
        exchange_rate slot(currency): rate
        standing_order doc: start_date amount frequency:status | from_account>account to_account>account
        alert log: raised_at severity message | account reviewed_by>officer?
        fee_schedule line(account_type): name amount
    """,
    "insurance": """
        line_of_business lookup: code name
        agent master: full_name phone commission | agency lead>agent?
        agency lookup: name city_name
        insured master: first_name last_name birth_date street postal_code email? | agent?
        policy doc: number start_date end_date premium status | insured line_of_business agent predecessor>policy?
        coverage lookup: name description?
        policy_coverage link(policy,coverage): limit deductible:money
        vehicle master: vin make:label model_year mileage | policy
        building master: street postal_code area year | policy
        beneficiary link(policy,insured): share
        claim doc: number occurred_on reported_on amount status | policy adjuster? cause
        cause lookup: name
        adjuster master: full_name region_name:city
        claim_payment line(claim): paid_on amount | payee>insured?
        claim_note log: written_at text | claim author>adjuster
        premium_invoice doc: due_date amount paid_on? | policy
        endorsement line(policy): effective_date description premium_change:money
        reinsurer lookup: name rating_class:status
        treaty master: year share | reinsurer line_of_business
        cession link(treaty,policy): amount
    """,
    "accounting": """
        company lookup: name tax_number
        fiscal_year slot(company): closed:flag
        account_class lookup: code name
        ledger_account master: number name active | account_class parent>ledger_account? company
        cost_center master: code name | company responsible>clerk?
        clerk lookup: full_name email
        journal lookup: code name
        journal_entry doc: posting_date document_number memo:text? | journal company posted_by>clerk \
            approved_by>clerk? reversal_of>journal_entry?
        journal_line line(journal_entry): debit credit | ledger_account cost_center? tax_code?
        tax_code lookup: code rate
        debtor master: name city_name payment_days:duration | company
        creditor master: name city_name iban | company
        sales_invoice doc: number issued_on due_date net:money tax | debtor tax_code?
        supplier_invoice doc: number received_on net:money tax | creditor
        open_item doc: due_date amount cleared_on? | debtor journal_entry
        budget link(ledger_account,cost_center): year amount
        asset master: description acquired_on cost useful_months:duration | cost_center ledger_account
        depreciation line(asset): booked_on amount
        bank_statement doc: statement_date balance | company
        bank_statement_line line(bank_statement): amount text | open_item?
        dunning doc: level sent_on fee | open_item
    """,
}
