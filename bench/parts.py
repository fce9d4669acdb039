"""Options of benches that name some of several parts."""


def some_of(parser, option, text, all_of_them):
    chosen = [name for name in text.split(",") if name]
    if unknown := set(chosen) - set(all_of_them):
        parser.error(f"{option}: there is no {', '.join(sorted(unknown))}; there are {', '.join(all_of_them)}")
    return chosen


def add_only(parser, parts):
    parser.add_argument("--only", default=",".join(parts), help="some of " + ",".join(parts))


def parts_of(parser, options, parts):
    return some_of(parser, "--only", options.only, parts)
