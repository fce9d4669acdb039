"""Write the commands and their options in man/cloche.1, between lines that name this program."""
import os
import re

from .options import LIMITS, by_group, commands_of
from .tables import SOURCE, TableError

PAGE = "man/cloche.1"
BEGIN, END = '.\\" tools/spec writes these lines: ', '.\\" tools/spec: end\n'


def escaped(text):
    """Plain text as lines of the page, one a sentence."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    text = re.sub(r"(?<![^\s(])'", r"\\(oq", text).replace("'", "\\(cq")
    return re.sub(r"^(?=\.)", r"\\&", re.sub(r"(?<=\.) (?=[A-Z])", "\n", text), flags=re.M) + "\n"


def sentence(text, words):
    """A capital letter begins it, unless its first word is a value, and a full stop ends it."""
    is_value = text.partition(" ")[0].strip(":,") in words.split()
    return (text if is_value else text[0].upper() + text[1:]) + "."


def item(row):
    names = " , ".join(f"Fl {name[1:]}".strip() for name in (row["alias"], row["option"]) if name)
    argument = f" Ar {row['argument'].replace('…', '...')}" if row["argument"] else ""
    return f".It {names}{argument}\n" + escaped(" ".join(filter(None, [sentence(row["help"], row["words"]), row["more"]])))


def group(tables, name, rows):
    return f".Pp\nFor\n.Cm {' , '.join(commands_of(tables, name))} :\n.Bl -tag -width Ds\n{''.join(map(item, rows))}.El\n"


def usage_word(word):
    if word == "|":
        return word
    return f"Fl {word[1:]}".strip() if word[0] == "-" else f"Ar {word.replace('…', ' ...')}"


def usage(text):
    """The words behind a command's name as macros: brackets on lines of their own, so that no line breaks in them."""
    lines = [[]]
    for before, inside, after in re.findall(r"(\[|\(|)([^][()]+)(\]|\)|)", text):
        words = " ".join(map(usage_word, inside.split()))
        if before:
            lines += [["Op" if before == "[" else "Pq", words], []]
        elif words:
            lines[-1] += [words]
    return "".join(f".{' '.join(words)}\n" for words in lines if words)


def synopsis(tables):
    return "".join(f".Nm\n.Cm {row['name']}\n{usage(row['usage'])}" for row in tables["CLOCHE_OPERATION"])


def description(row):
    return f".It Cm {row['name']}\n" + escaped(" ".join(filter(None, [sentence(row["summary"], ""), row["doc"], row["more"]])))


def replaced(page, name, text):
    begin = f"{BEGIN}{name}\n"
    before, found, rest = page.partition(begin)
    _, end, after = rest.partition(END)
    if not found or not end:
        raise TableError(f"{PAGE} has no lines {begin.strip()!r} and {END.strip()!r}")
    return before + begin + text + END + after


def files(tables):
    with open(os.path.join(SOURCE, PAGE), encoding="utf-8") as file:
        page = file.read()
    groups = [(name in LIMITS, group(tables, name, rows)) for name, rows in by_group(tables).items()]
    page = replaced(page, "commands", synopsis(tables))
    page = replaced(page, "descriptions", "".join(map(description, tables["CLOCHE_OPERATION"])))
    page = replaced(page, "options", "".join(text for is_limit, text in groups if not is_limit))
    return {PAGE: replaced(page, "limits", "".join(text for is_limit, text in groups if is_limit))}
