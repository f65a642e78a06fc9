"""The recogniser's vocabulary: classes of words, and for each skill the combinations of classes that mean it.

A class is a list of words parted by spaces: `calculat*` takes any ending, `in_your_head` is a phrase, `work~out` allows
up to three words in between. A pattern names classes that must stand in one sentence, in any order; the one with the
star is where a negation counts, and `!CLASS` must not occur. Its sign:

    +   says the skill; negated, it says the contrary         + USE *CALCULATOR
    -   says the contrary; negated, it says the skill         - ARITHMETIC *HEAD
    ~   says the skill where negated, nothing otherwise       ~ *UNIT
    ^   says the contrary where negated, nothing otherwise    ^ *SOURCE
    =   says the skill, negated or not                        = *ROUND UNLESS ASKED
"""

CLASSES: dict[str, str] = {
    # Shared.
    "ASKED": """ask* request* want* requir* specif* demand* question* prescrib* told call*_for task need* wish* told
        instruct* tells desired explicit* problem stat* says set""",
    "UNLESS": """unless only_if only_when only_where only~if only~when only~where except* if_and_only if_asked
        when_asked if_requested when_requested""",
    "USE": """use* using employ* rely* reli* resort* reach* turn_to call* run* invok* trust* go_through consult* prefer*
        lean* let depend* pass~to hand~to via through appl* delegat* leave~to put~into feed* have perform* do does done
        doing should must belong* always work* every* any each all even get from with to_the answer* over beat* base*
        draw* go_by suppl* favour* favor* instead take* confirm* verif* look* check* ground*""",
    "TOOL": "tool* instrument* utilit*",
    # Reading.
    "FILE": "file* attach* document* spreadsheet* workbook* upload* enclos* csv pdf",
    "READ": """read* open* load* inspect* look* examin* study* studi* consult* go_through go_over view* scan* pars*
        access* start_with begin_with fetch* retriev* review* start_by begin_by turn_to see peruse* get_into take_in
        extract* process* check*""",
    "LATER": "later last wait* afterwards at_the_end leave_until optional postpon* defer* second*",
    "SOURCE": """tool* search* lookup* find*_out evidence verif* look*_up look*~up source* reader* web
        instrument* fetch* retriev* consult*""",
    "MEMORY": """memory memories memoris* memoriz* recall* you_remember remembered remembering recollect* by_heart
        own_knowledge general_knowledge training prior_knowledge what_you_know you_already_know
        you_think_you_know internal_knowledge background_knowledge hunch* intuition
        knowledge_you guess* already_believe gut off_the_top""",
    "UNRELIABLE": """unreliable misleading outdated stale wrong fallible error-prone deceiv* deceptive no_substitute
        not~substitute not~replace* not~reliable not~trust* not~enough not~count* not~evidence not~source
        no_source distrust* treacherous
        suspect""",
    "RELY": """answer* rely* reli* resort* trust* depend* lean* go_by draw* base* use using used work* suppl* than from
        over out_of report* quot* tool* consult* fill* happen* what""",
    "CALC": """calculator* calculation_tool* calculating_tool* python computing_tool* arithmetic_tool* math_tool*
        maths_tool* computation_tool* calc calc_function calc_tool""",
    "CONVERTER": "converter* conversion_tool* unit_tool* units_tool* conversion_function* converting_tool*",
    "QUOTE": """quot* copy* copie* report* give* giving pass~on passing stat* cit* transcri* reproduc* repeat* record*
        hand~over return* keep* write* provid* preserv* transfer* note* relay* carry~over convey* present* cop* take*
        deliver* must should""",
    "VALUE": """value* number* figure* digit* name* quot* cell* data fact facts amount* entr* wording date* measurement*
        finding* content* detail* string* spelling* it them what source* text""",
    "NUMBERS": """value* number* figure* digit* name names quot* amount* entr* data wording date dates measurement*
        fact facts quantit* statistic*""",
    "EXACT": """exact* verbatim precise* literal* word_for_word word-for-word digit_for_digit digit-for-digit faithful*
        unchanged unaltered unmodified as_is as_given as_printed as_written letter_for_letter full_precision
        to_the_digit as~appear* last_digit every_digit all_digits all_the_digits as~stand* as~source~has untouched
        unrounded as~shown character_for_character character_by_character to_the_letter as~found same_digits
        original_form precisely""",
    "BLUR": """round* approximat* paraphras* estimat* rough* summar* simplif* reword* rephras* ballpark alter* chang*
        modif* tidy* adjust* vague* loosely shorten* retouch* massag*""",
    "ROWCOL": """row rows column columns cell cells header headers heading headings table_line* row_and row/column
        column/row rows/columns""",
    "LINE": "line lines heading headings label labels entry entries record records where_in where~from where~taken",
    "TABLE": "table* sheet* heading* spreadsheet* figure* value* number* cell* grid*",
    "CHECK": """check* verif* confirm* make_sure making_sure ensur* double* right correct* match* re-read reread compar*
        certain care* look~again pick* align* locat* identif* watch* twice exact* trace* cross-check* belong* proper*
        intended second_look sure attention mind_which line~up wanted asked need* point*""",
    "CONFUSE": """confus* mix* misread* swap* slip* wrong neighbour* neighbor* adjacent mistak* assum* stray*
        next_door off_by* one~off""",
    # Reckoning.
    "ARITHMETIC": """arithmetic* sum sums summing calculat* comput* add* multipl* divi* subtract* percent* math maths
        mathemat* work~out reckon* total* operation* number* figur* average* tally*""",
    "HEAD": """head heads mental* mind by_hand brain yourself own on_the_fly manually longhand from_memory estimat*
        guess* eyeball*""",
    "CONVERT": """conver* unit units measure* kilomet* mile miles metre* meter* pounds kilogram* fahrenheit celsius
        imperial metric""",
    "CONVERTING": "conver*",
    "FACTOR": """factor factors by_heart from_memory rough* in_your_head in_your_own head mental* approximat* by_hand
        manually memor* remember* yourself rule_of_thumb rules_of_thumb""",
    "ROUND": """round* decimals decimal_place* decimal_digit* precision significant_figure* significant_digit* nearest
        digits_after number_of_digits accuracy""",
    "OTHERWISE": "beyond other_than otherwise differently further_than more_than any_other fewer_than less_than",
    "FREELY": """as_you_like however_you freely convenient whatever any_way any_old own_way as_you_please you_see_fit
        you_think_best you_prefer at_will any_form any_format any_number loosely optional up_to_you""",
    # Form.
    "UNIT": """unit units symbol symbols kg km currency percent_sign* unit_name* dollar_sign* suffix* kilogram*
        unit-free""",
    "INCLUDE": """inclu* add* append* writ* attach* put* giv* stat* show* keep* mention* always contain* follow* have
        has state* report* complete* name* provide* with insert* use using group* end*""",
    "OMITTING": "leave~out leaving~out omit* drop* skip* strip* remov*",
    "BARE": """bare_number* plain_number* naked_number* number_alone number_only numbers_only just_the_number
        only_the_number unitless just_a_number only_a_number just_the_figure number_and_nothing bare_figure*
        number_itself only_numbers pure_number* number_on_its_own plain_figure* just_the_digits number_by_itself
        figure_alone unit-free raw_number* numeral_only numeric_value_only only_the_figure number_without_a_unit""",
    "SEPARATOR": """separator* separating_comma* comma commas grouping digit_group* space spaces apostrophe*
        thousands_mark* grouping_mark* delimiter* punctuat*""",
    "THOUSANDS": "thousand* number* digit* figure* million* large big long",
    "PLAIN_DIGITS": """plain_digits digits_only unbroken digits_alone uninterrupted only_digits run_together
        unseparated ungrouped single_run just_digits solid_string continuous""",
    "PROSE": """sentence* prose explanation* explain* introduc* preamble* chatter commentary elaborat* padding filler
        narrative justif* story discussion lead-in* verbos* long-winded ramble* rambling essay* paragraph* wordy
        surrounding_text extra_text extra_words additional_text phrases chit-chat decorat* wrap*""",
    "GIVE": """answer* writ* give* respond* repl* add* with explain* provide* in_full include* wrap* should must always
        phrase* form* full complete present* put""",
    "TRACE": "reasoning trace",
    "ANSWER": "answer* repl* respons* respond* final output* result* say* write* give*",
    "BRIEF": """few_words short* brief* concise* terse* succinct* bare answer_only answer_alone just_the_answer
        only_the_answer few_words single_word minim* nothing_but nothing_else nothing_more the_answer_itself
        answer_by_itself one_word
        compact* to_the_point only_the_thing fewest_words handful_of_words word_or_two words_or_less only_what
        only_with_the only_with_what alone the_answer,_nothing few_as_possible number_or_name asked_for_only
        and_no_more_words couple_of_words economical* curt* laconic* sparing*""",
    "TERSE": "terse* nothing_else nothing_more few_words only_the_answer just_the_answer answer_alone answer_only",
    "LIST": """list lists listing item items element* several multiple enumerat* entries more_than_one names members
        answers values them series""",
    "COMMA": "comma commas comma-separated comma-delimited",
    "ORDER": "order ordered ordering sequence* sort* alphabet* arrang* ranking ascending descending",
    "ANY": "any irrelevant ignor* random* arbitrar* no_matter unimportant immaterial however",
    # Planning and judging.
    "PLAN": "plan plans planning step steps outline* roadmap*",
    "SHORT": """short* brief* concise* few fewer fewest minim* lean compact* only~need* only~necessary tight* succinct*
        economical suffic* essential* simpl* small* handful necessary""",
    "COMPLETE": """complete* everything miss_nothing nothing~missing nothing~missed nothing~left nothing~forgotten
        nothing~omitted not~miss* without~omit* without~leav* without~miss* without~skip* without~forget* cover*
        no~gap* no~gaps all~needed every~need* thorough* nothing~lost not~leav* not~omit* not~skip* not~forget*
        skip_nothing leave_nothing omit_nothing forget_nothing lose_nothing full_coverage
        leave_none leave_no~out leave_none~out none~left none~miss* none~out no~miss* not~forget*""",
    "PAD": """pad padding padded superfluous redundant needless* unnecessar* extra* waste* wasting bloat* filler
        elaborate sprawl* lengthy surplus long overlong detours busywork fluff""",
    "REJECT": """reject* refus* turn~down send~back sent_back sending~back sent~back declin* fail failing object*
        disapprov* push~back complain* veto* fault_it return~work bounc* criticis* criticiz* flag* block*""",
    "ONLY": "only solely just exclusively reserv*",
    "FAULT": "fault* error* mistake* flaw* defect* wrong problem* bug* inaccura* incorrect*",
    "REAL": """real really genuine* actual* true substanti* serious* material materially concrete definite* demonstrabl*
        provabl* matter* affect* actually_wrong truly wrong_answer clear_error* clear_mistake* clearly_wrong
        factual* important significant* consequential valid legitimate objective* verifiable""",
    "TRIVIAL": """style stylistic trivial* trifl* minor nitpick* nit-pick* cosmetic* wording taste* preference*
        formatting petty pedant* quibbl* layout length brevity split_hairs hair-splitting nit nits phrasing
        superficial* small_things little_things niceties presentation tone""",
    "APPROVE": """approv* accept* pass passes passing sign~off signing agree* endors* green_light green-light
        let~through wave~through waving okay say_yes let~pass letting confirm* verdict decid* judg* give~consent
        go-ahead""",
    "DOUBT": "doubt* unsure uncertain* hesitat*",
    "EVERY": "everything always any_reason freely anything whatever slightest whenever_you_can by_default generously",
    "FALSE_ALARM": "false_alarm* false-alarm* false_positive* groundless* unfounded imaginary imagined invented",
    "REDO": """recomput* re-comput* recalculat* re-calculat* redo* re-do redoing rework* re-work* recount* re-deriv*
        rederiv* retrac* work~again calculat*~again comput*~again sums~again figures~again do~over
        work~out~yourself work~through~yourself own_calculation* repeat~calculation* repeat~computation*
        rerun* re-run* calculat*~yourself work~yourself comput*~yourself calculat*~independent* independent*
        calculation~again check~arithmetic check~calculation* check~sums check~maths check~math check~numbers
        check~figures verify~arithmetic verify~calculation* verify~numbers verify~figures verify~result
        own_arithmetic own_working recheck* re-check* add~up~again replicat* reproduc* from_scratch""",
    "AGAIN": "again afresh anew yourself once_more independent* own second_time over_again twice fresh",
    "VERIFY": "verif* check* test redo* double-check* independent* derive*",
    "FEEDBACK": "feedback",
    "RUBBER": "rubber-stamp* rubber_stamp* face_value on_trust blind* unchecked unexamined on_faith unverified",
    # Gaps.
    "GAP": """not~find not~found not~located not~locate not~discover* not~available not~obtain* not~retriev* not~turn
        not~see not~there not~contain* not~know* unable~find unable~locate fail*~find failed missing gap gaps absent
        nothing~found nothing~turn* find_nothing found_nothing finding_nothing unavailable lacking turned_up_nothing
        empty-handed came_up_empty no~evidence unanswered uncertain* unknown no_result* incomplete nowhere
        not~present not~appear* come_up_empty turns_up_nothing no_answer no_trace not~establish* not~confirm*
        without_success in_vain no_luck lacks could_not""",
    "SAY": """say saying says stat* report* admit* tell* mention* declar* acknowledg* flag* list spell~out make~clear
        open openly honest* plain* note indicat* point~out own_up disclos* name* conced* write clear* explicit* confess*
        upfront transparent* so""",
    "HIDE": """hide hiding hidden conceal* gloss* cover~up paper~over quiet* silent* silence pass~over bury omit*
        disguis*""",
    "GUESS": """guess* invent* make~up making~up made~up made-up fabricat* fill~gap fill~gaps filling~gap filling~gaps
        plug* speculat* hallucinat* bluff* pretend* conjectur*""",
    "FORMAT": """format* field fields structure* marker markers template* schema* section_header* output_section*
        output_form shape shapes layout* skeleton* syntax""",
    "KEEP": """keep* stick* adher* follow* respect* conform* obey* observ* fill* use* using exact* compl* stay* match*
        maintain* honour* honor* return* produc* suppl* provid* answer* write* begin* every* all each deliver* must
        should always give* respond* reply only precise* preserv* leave*""",
    "OUTPUT": """output* respons* repl* answer* field fields requir* request* prescrib* ask* specif* expect* demand*
        format* laid_out given""",
    "DSPY": "given_the_fields",  # the instructions of a signature that has none of its own
    "OUTSIDE": "outside besides around apart_from other_than extra additional surrounding",
    "BREAK": """depart* deviat* break* stray* violat* chang* alter* add adding drop* renam* invent* omit* skip*
        remov* merg*""",
    "HARM": """unusable invalid* fail* unreadable unparsable unparseable lost crash* ruin* useless discard* void*
        breaks_it breaks_the_parser breaks_parsing breaks_everything confus* reject* garbled worthless""",
}

PATTERNS: dict[str, tuple[str, ...]] = {
    "read_the_attached_file_first": ("+ READ *FILE", "- FILE *LATER"),
    "use_tools_not_memory": (
        "+ USE *SOURCE !CALC !CONVERTER !ARITHMETIC !CONVERTING !FILE",
        "- RELY *MEMORY !UNRELIABLE !ARITHMETIC !CONVERTING !GAP !SOURCE",
        "^ *SOURCE !CALC !CONVERTER !ARITHMETIC !CONVERTING !FILE !MEMORY !GAP",
        "+ *UNRELIABLE MEMORY",
    ),
    "quote_exact_values": ("+ VALUE *EXACT QUOTE !FORMAT", "- NUMBERS *BLUR !ASKED", "~ *BLUR QUOTE !ASKED"),
    "check_the_right_row_and_column": (
        "+ CHECK *ROWCOL !CONFUSE",
        "+ CHECK *LINE TABLE !CONFUSE !ROWCOL",
        "+ *CHECK ROWCOL CONFUSE",
        "+ *CHECK LINE TABLE CONFUSE !ROWCOL",
        "- *CONFUSE ROWCOL !CHECK",
        "~ *CONFUSE LINE !CHECK",
    ),
    "use_the_calculator": (
        "+ *CALC",
        "- ARITHMETIC *HEAD !CONVERTING !CALC !TOOL",
        "+ ARITHMETIC *TOOL !CONVERTING !CALC",
    ),
    "convert_units_with_the_tool": ("+ *CONVERTER", "+ CONVERT *TOOL !CONVERTER", "- CONVERTING *FACTOR"),
    "follow_the_rounding_asked_for": (
        "= *ROUND UNLESS ASKED",
        "= *ROUND OTHERWISE ASKED",
        "+ ASKED *ROUND !FREELY",
        "- FREELY *ROUND",
    ),
    "leave_out_units_unless_asked": (
        "= *UNIT UNLESS ASKED",
        "~ *UNIT !CONVERTING",
        "- INCLUDE *UNIT !CONVERTING !ASKED",
        "+ *OMITTING UNIT !CONVERTING",
        "+ *BARE",
    ),
    "no_thousands_separators": (
        "~ *SEPARATOR THOUSANDS",
        "- INCLUDE *SEPARATOR THOUSANDS !LIST",
        "+ *OMITTING SEPARATOR THOUSANDS",
        "+ *PLAIN_DIGITS",
        "~ *GROUPED",
    ),
    "answer_with_few_words_no_prose": (
        "+ ANSWER *BRIEF !TRACE !PROSE",
        "+ *BRIEF ANSWER PROSE !TRACE",
        "+ *TERSE !TRACE !PLAN !PROSE",
        "~ *PROSE !TRACE",
        "+ *OMITTING PROSE !TRACE",
        "- GIVE *PROSE !TRACE !BRIEF",
    ),
    "comma_separated_list_in_the_asked_order": (
        "+ LIST *COMMA",
        "+ LIST *ORDER !ANY",
        "+ ASKED *ORDER !ANY",
        "- ANY *ORDER",
    ),
    "keep_the_plan_short_and_complete": ("+ PLAN *SHORT", "+ PLAN *COMPLETE", "- PLAN *PAD"),
    "reject_only_real_faults": (
        "= REJECT *ONLY FAULT !FEEDBACK",
        "+ REJECT *REAL !TRIVIAL !FEEDBACK",
        "+ APPROVE *REAL FAULT !TRIVIAL",
        "- REJECT *TRIVIAL",
        "~ *TRIVIAL",
        "+ APPROVE *TRIVIAL !REJECT",
        "+ DOUBT *APPROVE !REJECT",
        "- DOUBT *REJECT !APPROVE !FEEDBACK",
        "- EVERY *REJECT !REAL !TRIVIAL !FAULT",
        "~ *FALSE_ALARM",
    ),
    "recompute_before_approving": (
        "+ *REDO !FEEDBACK",
        "+ ARITHMETIC *AGAIN !FEEDBACK !REDO",
        "+ APPROVE *VERIFY !FEEDBACK",
        "- *RUBBER",
    ),
    "say_what_was_not_found": ("+ GAP *SAY !HIDE", "- GAP *HIDE", "- *GUESS"),
    "keep_to_the_output_format": (
        "+ KEEP OUTPUT *FORMAT !FREELY !BREAK !OUTSIDE !DSPY",
        "= BREAK *FORMAT HARM",
        "^ *FORMAT OUTPUT !BREAK !OUTSIDE",
        "- *BREAK FORMAT",
        "- FREELY *FORMAT",
        "~ *OUTSIDE FORMAT",
    ),
}
