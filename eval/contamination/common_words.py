"""Words that prompts are made of, in lower case: as a gold answer or in a piece of a question they prove nothing.

Put together by hand for this project: the commonest English words, and those in which instructions about questions,
files, tools and forms of answers are written.

    "seven" in COMMON_WORDS      # True
    "lighthouse" in COMMON_WORDS # False
"""

_LISTED = """
a able about above according accurate accurately across act action actual actually add added adding addition after
again against agent agents all allow almost alone along alphabetical alphabetically already also although always am
among amount an and another answer answered answering answers any anyone anything apart appear appears apply
approach appropriate approve approved approves are area argument arguments around as ask asked asking asks assume at
attached attachment attachments available average avoid away back bare based basic be because become been before
begin beginning begins being below best better between beyond big black blank blue both bottom brackets break brief
bring build but by calculate calculated calculation calculations calculator call called calls came can cannot care
careful carefully carry case cases cause cell cells certain change changed character characters check checked
checking checks choose chosen circle city claim class clear clearly close closed code collect column columns come
comes comma commas common company compare compared complete completely computation compute computed condition
conditions confirm consider considering consist contain contained containing contains content contents context
continue convert converted copy correct corrected correctly could count counted counting country counts create
critic critical currency current cut data date dates day days decide decided decimal decimals decision deduct deep
define defined definite degree degrees derive describe described description detail details determine did differ
difference different digit digits direct directly discard do document documents does doing dollars done double down
draft draw drop during each earlier early easy effort eight either element elements eleven else empty end ended ends
enough ensure enter entire entry equal equals error errors especially estimate even evening ever every everyone
everything evidence exact exactly examine example examples except excluding exist exists expect expected expert
explain explained explanation explicit explicitly express expressed extra extract fact facts fail failed fails fair
false family far fast feedback few fewer fewest field fields fifth figure figures file files fill final finalizer
finally find finding finds fine finish finished first fit five fix follow followed following follows for form formal
format formats formatted formatting former formula forms forward found four fourth free from front full fully
further gather gave general generally get give given gives giving go goes going gone good got great greater greatest
green group groups guess guesses had half hand handle hard has have having he head heading headings help helpful her
here high higher highest him his hold holds home hour hours house how however hundred idea ideas if ignore image
images important in inch inches include included includes including incomplete increase independent index indicate
individual information initial input inputs inside instead instruction instructions intermediate into introduction
invent is isolate it item items its itself job join joined judge just keep keeping kept key keys kind kinds knew
know knowledge known knows label labels language large larger largest last late later latter lead leading learn
least leave leaves leaving led left length less let letter letters level life light like likely limit line lines
list listed lists literal literally little live long longer look looked looking looks lose lost lot low lower
lowercase lowest made main make makes making man manner many mark marks match matches material matter maximum may
mean meaning means meant measure member memory men mention mentioned mentions message method middle might million
mind minimum minus minute minutes miss missed missing mistake moment money month months more morning most move much
multiple multiply must my name named names near nearest necessary need needed needs negative neither never new next
night nine no non none nor not note notes nothing notice now number numbered numbers numeric object observation
observations obtain of off office often old omit on once one ones only open operation opinion option options or
orange order ordered original other others otherwise our out outcome outer output outputs over own page pages pair
paper paragraph parse part partial particular parts pass past path people per percent percentage perform perhaps
period person phrase pick picture piece place placed places plain plan planned planner plans play please plus point
points position positive possible precise precisely precision prefer prefix presence present previous price prices
primary print probably problem problems process produce product program proper properly provide provided provides
public punctuation purpose put question questions quick quickly quite quotation quote quotes range rate rather raw
read reader reading ready real really reason reasoning reasons recall receive recheck red refer reference regardless
reject rejected relate related relevant rely remain remaining remains remember remove repeat repeated reply report
reported reports request requested requests require required requires research researcher respond response
responses rest result results return review reviewed right role room round rounded rounding row rows rule rules run
said same saw say says school score search second seconds section see seem seems seen select selected send sense
sentence sentences separate separated separately separator separators sequence series set seven several shall she
sheet sheets short shorter should show shown shows side sign signs similar simple simply since single six size slow
small smaller smallest so social solution solutions solve solved solver solving some someone something sometimes
sort sorted sound source sources space spaces special specific specified spell spelled spelling spreadsheet stand
standard stands start state stated statement states stay step steps still stop store story straight street strict
strictly string strings strong structure student study style subject subtract such sum summary supply support
supported sure symbol symbols system table tables tabular take taken takes taking talk task tasks team tell ten term
terms test text than that the their them themselves then there therefore these they thing things think third this
those though thought thousand thousands three through thus time times title titles to today together told too took
tool tools top total totals toward trace tracing trailing treat tree tried true trust try trying turn turned turns
twelve twenty twice two type types under understand unit units unknown unless unnecessary until up upon upper
uppercase us usage use used useful user users uses using usual usually valid value values various verify version
very via view wait want wants war was watch water way ways we web website week weeks weight well went were what
whatever when where whether which while white who whole whom whose why wide will wish with within without woman
women word words work worked working works world worth would write writes writing written wrong year years yellow
yes yet you young your yours yourself zero
"""
COMMON_WORDS = frozenset(_LISTED.split())
