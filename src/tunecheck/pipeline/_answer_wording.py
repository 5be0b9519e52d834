"""What a text without a call does, by its wording in several languages: does it refuse, or ask for something?"""

import re

_BEGINNING = 300  # characters: refusals begin with what they are
_END = 4_000

_ARE = r"(?:i['’]?m |i am |we['’]?re |we are )"
_CANNOT = (
    r"(?:can(?:['’]t|not)|unable|not able|won['’]t|don['’]t have|do not have"
    r"|not (?:equipped|designed|programmed|authori[sz]ed) to)"
)
_REFUSALS = (
    rf"{_ARE}?(?:very |really |so )?(?:sorry|afraid)\b(?:.{{0,80}}\b|.{{0,160}}\b(?:{_ARE}|i |we )){_CANNOT}",
    rf"{_ARE}?(?:unable|not able) to\b",
    r"(?:i |we )(?:can(?:['’]t|not| not)|won['’]t|will not|am unable to|am not able to|must decline)\b",
    r"(?:i |we )do(?:n['’]t| not) have (?:the ability|access|any tools?)\b",
    r"(?:i )?apologi[sz]e,? .{0,60}\b(?:can(?:['’]t|not)|unable|not able)",
    r"as an ai\b",
    r"(?:es tut mir|tut mir|leider) .{0,60}\b(?:kann|darf|kein)",
    r"ich (?:kann|darf) (?:das |dir |ihnen |dabei )*nicht",
    r"(?:het spijt me|helaas).{0,60}\bkan (?:ik|dat)",
    r"ik kan (?:je |u |dat |hier)*niet",
    r"(?:je suis|désolée?|je m['’]excuse).{0,60}\b(?:ne (?:peux|puis)|pas en mesure)",
    r"je ne (?:peux|puis) pas",
    r"(?:lo siento|lo lamento|disculp).{0,60}\bno (?:puedo|me es posible)",
    r"no puedo (?:ayudar|hacer|realizar|proporcionar)",
    r"(?:mi dispiace|spiacente).{0,60}\bnon (?:posso|sono in grado)",
    r"non posso (?:aiutar|fare|fornir)",
    r"(?:desculpe|sinto muito|lamento).{0,60}\bnão (?:posso|consigo)",
    r"não posso (?:ajudar|fazer|fornecer)",
    r"(?:извините|к сожалению|простите).{0,60}\bне (?:могу|имею)",
    r"я не могу",
    r"(?:抱歉|对不起|對不起|很遗憾|不好意思).{0,40}(?:无法|不能|無法|没有办法)",
    r"我(?:无法|不能|無法)",
    r"(?:申し訳|すみません|恐れ入りますが).{0,60}(?:できません|いたしかねます|できかねます)",
    r"(?:죄송|미안).{0,60}(?:없습니다|없어요|못합니다)",
)

_OFFERS = (
    r"(?:anything|something) else|else i can|(?:can|may) i (?:help|assist)|shall i|should i",
    r"(?:would you like|do you want) (?:me|to (?:know|see|hear))",
    r"if you (?:have|need|want) (?:any|more|further|other|help)",
    r"sonst noch|kann ich (?:dir|ihnen)|autre chose|puis-je|algo más|puedo ayudar|altro|posso ajudar|mais alguma",
)
"""In questions that offer more, as polite answers end, and ask for nothing."""

_ASKED = r"(?:provide|specify|tell|share|give|confirm|clarify|enter|let me know)"
_REQUESTS = (
    rf"please {_ASKED}|(?:could|can) you (?:please )?{_ASKED}",
    r"let me know (?:the|your|which|what|where|when|if)",
    r"i(?:['’]ll)? (?:will )?need (?:to know|(?:some |a few )?more|the|your)",
    r"bitte (?:gib|geben|nenn|teil)|veuillez (?:fournir|préciser|indiquer)",
    r"por favor,? (?:proporcion|indi|dime|especifi|inform|forne)|пожалуйста,? (?:укажите|сообщите|уточните)",
    r"请(?:提供|告诉|告知|问|输入)|請(?:提供|告訴)|教えて(?:ください|いただ)|알려\s?주",
)

# Compiled when they are first used: most runs meet no such text.
_REFUSAL = rf"(?is)(?:unfortunately,? |很|非常)?(?:{'|'.join(_REFUSALS)})"
_OFFER = rf"(?i)\b(?:{'|'.join(_OFFERS)})\b"
_REQUEST = rf"(?i)[?？]|\b(?:{'|'.join(_REQUESTS)})"
_SENTENCE = r"[^.!?。！？\n]*+[.!?。！？\n]?"


def refuses(text: str) -> bool:
    """Whether a text begins as refusals do. Services do not mark them reliably."""
    return re.match(_REFUSAL, text.lstrip()[:_BEGINNING]) is not None


def asks_back(text: str) -> bool:
    """Whether a text asks the user for something, beyond whether there is more to do."""
    sentences = re.findall(_SENTENCE, text[-_END:])
    return any(re.search(_REQUEST, sentence) and not re.search(_OFFER, sentence) for sentence in sentences)
