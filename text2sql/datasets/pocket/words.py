"""The vocabulary of the pocket world: three banks that share no word, and invented words.

``TRAIN`` words name what the training split asks about, ``DEV`` words what its new databases
hold, and ``UNSEEN`` words occur nowhere else: not in pre-training, not in the tokenizer.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, fields
from itertools import pairwise

_ENTITIES = """
account actor agent airline airport album alley animal antique apartment arena article
artist athlete auction baker bakery bank barge battery beach bike bird bishop blog boat book branch
brewery bridge broker bus cabin cabinet cafe cake camera camp canal candidate captain car card cat
cave chef choir church cinema clinic club coach comet concert contract course court crew crop cruise
customer dancer dealer device diver doctor dog donor driver drone drug editor employee engine
engineer episode exam exhibit factory farm farmer ferry festival film flight florist forest forum
fund gallery garage garden gardener gate glacier goat grocer guide guitar gym harbor helper horse
hospital hotel house invoice island jacket jockey journal judge kennel keeper kiosk kitchen lake
lamp laptop lawyer league lecture lender lesson letter library lodge machine magazine mall market
meadow medal member merchant mine miner motor mountain museum musician nurse officer opera orchard
order painter painting panel parcel park partner patient payment pet phone piano pianist pilot
pipeline planet plant player poem poet pond pool port postman printer prison product project
publisher puppy quarry rabbit racer ranch ranger recipe refund rental reporter restaurant rider
river road robot rocket roof route sailor salon satellite school scout sculptor sensor server ship
shipment shop singer skater sofa soldier sponsor spring squad stable stadium statue store student
studio supplier surgeon swimmer tailor teacher team tenant tent theater ticket toaster tour tower
tractor trail trainer tram truck tunnel tutor uniform vendor vessel vet village vineyard violin
visitor volunteer voter waiter walker warehouse weaver website well windmill winery worker workshop
writer yacht zoo"""

_NUMBERS = """
age altitude amount area attendance balance beds bids bonus budget calories capacity cargo
charges clicks copies cost credits debt delay depth deposit discount distance dividend donation
downloads duration earnings elevation enrollment expense fare fee fine followers frequency fuel
goals grants height hours humidity income inventory kilometers latency laps length likes loss
mileage minutes mortgage noise output overtime pages penalty pensions points population postage
pressure price profit purity quantity quota rainfall rating rent revenue salary savings score seats
shares speed stock strength subsidy surplus tariff tax temperature thickness tuition turnover
velocity views voltage volume votes wage warranty weight width wins yield"""

_CATEGORIES = """
accent allergy brand breed building category channel city class climate
color condition continent country county cuisine currency degree department dialect
district division duty expertise fabric flavor format fragrance gender genre grade habitat hobby
industry kind language license lineage material method mood nationality occupation origin
ownership pattern phase plan platform position profession province quality region religion role
season sector segment shade shape shift size source specialty stage state status style surface
technique territory texture theme tier timezone topic treatment type vintage zone"""

_VALUES = """
active alpine amber ancient archived arctic athens autumn azure balcony bamboo barcelona
baroque basic berlin beta birch bitter black blue bold boston brazil broken bronze brown cairo
calm canada cash cedar ceramic chicago chile civic classic clay closed coastal comedy copper
coral cotton crimson croatia curved daily dallas damaged deluxe denmark desert diesel digital
double drama dry dublin dutch egypt elastic electric elm empty english expired express faded
finland folk formal fragile france frozen fusion gamma geneva glass gold gothic granite gravel
green grey hamburg harsh heavy helsinki hollow horror humid hungary hybrid idle indian indigo
indoor inland iron italy ivory japan jazz junior kenya lagos latin leather lima lisbon local
london lunar madrid maple marble matte medieval mexico milan minor modern monthly moscow muddy
nairobi narrow neon nepal night nordic norway oak ocean olive online oslo outdoor oval pale paper
paris peru pine plain plastic poland polar polish premium private prague public pure purple quiet
radio rapid raw remote retro rigid robust rome round royal rural rusty sandy satin senior seoul
shallow silent silk silver smooth solar solid spain spicy square standard steel steep stone
stormy striped suburban summer sunny sweden swift sydney tall teal tender thick thin tokyo toronto
tropical turkey urban urgent vacant velvet verified vienna violet virtual vivid warsaw weekly wet
white wild winter wooden woolen yearly yellow young zinc zurich"""

_NAMES = """
adam alice amir anna anton arthur bella ben boris carla carlos cecil chloe clara colin
daniel daria david dora dylan edith elena elias emma erik eva felix fiona frank gina gloria greta
hanna hassan helen henry hugo ida igor ines iris ivan jack jane jonas judith julia karl kate kevin
lara laura leo liam lena lucas lydia marco maria martin maya mila mina nadia nina noah nora olga
oscar otto paula peter petra quinn rafael rita robert rosa ruth samir sara simon sofia stella
tamara theo thomas tina tobias ugo ursula vera victor viola walter wendy yuri zara zoe"""

_MODIFIERS = """
actual adjusted annual base billed current estimated final fixed foreign
gross initial legal listed marginal net nominal operating optional partial prior
projected regional reserved seasonal secondary target unit weighted"""


@dataclass(frozen=True)
class Vocabulary:
    """Words by what they name; ``modifiers`` qualify number columns (``net_price``)."""

    entities: tuple[str, ...]
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    values: tuple[str, ...]
    names: tuple[str, ...]
    modifiers: tuple[str, ...]

    def words(self) -> tuple[str, ...]:
        """All words of all kinds."""
        return tuple(word for part in fields(self) for word in getattr(self, part.name))

    def __add__(self, other: Vocabulary) -> Vocabulary:
        """Both vocabularies together."""
        parts = [part.name for part in fields(self)]
        return Vocabulary(*(getattr(self, part) + getattr(other, part) for part in parts))


def plural(word: str) -> str:
    """The English plural by spelling rules: ``city`` -> ``cities``, ``branch`` -> ``branches``."""
    if word.endswith(("s", "sh", "ch", "x")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def _split(text: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Deal words out to the banks: two fifths, two fifths and one fifth."""
    words = sorted(set(text.split()))
    random.Random(7).shuffle(words)
    first, second = len(words) * 2 // 5, len(words) * 4 // 5
    return tuple(words[:first]), tuple(words[first:second]), tuple(words[second:])


_KINDS = (_ENTITIES, _NUMBERS, _CATEGORIES, _VALUES, _NAMES, _MODIFIERS)
TRAIN, DEV, UNSEEN = (Vocabulary(*kinds) for kinds in zip(*map(_split, _KINDS), strict=True))
PRETRAINING = TRAIN + DEV

# SQLite's keywords, and the two columns that every table has.
_RESERVED_TEXT = """
    abort action add after all alter always analyze and as asc attach autoincrement before
    begin between by cascade case cast check collate column commit conflict constraint create
    cross current current_date current_time current_timestamp database default deferrable
    deferred delete desc detach distinct do drop each else end escape except exclude exclusive
    exists explain fail filter first following for foreign from full generated glob group groups
    having if ignore immediate in index indexed initially inner insert instead intersect into is
    isnull join key last left like limit match materialized natural no not nothing notnull null
    nulls of offset on or order others outer over partition plan pragma preceding primary query
    raise range recursive references regexp reindex release rename replace restrict returning
    right rollback row rows savepoint select set table temp temporary then ties to transaction
    trigger unbounded union unique update using vacuum values view virtual when where window with
    without id name"""
_RESERVED = frozenset(_RESERVED_TEXT.split())

_SOUNDS = (
    "b c d f g h j k l m n p r s t v w z bl br cl dr fl gr pl sk st tr",
    "a e i o u ai ea oo ou",
)
_ONSETS, _VOWELS = (text.split() for text in _SOUNDS)
_CODAS = ("", "", "n", "r", "l", "s", "t")
_WORDS = PRETRAINING.words()
_FOLLOWERS: dict[str, list[str]] = defaultdict(list)
"""Which letter follows which in real words; ``^`` and ``$`` mark start and end."""
for _word in _WORDS:
    for _left, _right in pairwise(f"^{_word}$"):
        _FOLLOWERS[_left].append(_right)


def _syllables(rng: random.Random) -> str:
    count = rng.choice((2, 2, 3))
    body = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(count))
    return body + rng.choice(_CODAS)


def _letter_chain(rng: random.Random) -> str:
    word, letter = "", "^"
    while len(word) < 10 and (letter := rng.choice(_FOLLOWERS[letter])) != "$":
        word += letter
    return word


def _splice(rng: random.Random) -> str:
    left, right = rng.choice(_WORDS), rng.choice(_WORDS)
    return left[: max(2, len(left) // 2)] + right[len(right) // 2 :]


def invent(rng: random.Random) -> str:
    """Draw an invented word of 4 to 10 letters that is no SQL keyword, nor is its plural.

    A small transformer that meets a few hundred words remembers them and writes one of those for
    a word it has never seen. Very varied inventions make copying the cheaper way.
    """
    while True:
        word = rng.choices((_syllables, _letter_chain, _splice), weights=(6, 7, 7))[0](rng)
        if 4 <= len(word) <= 10 and not {word, word + "s"} & _RESERVED:
            return word
