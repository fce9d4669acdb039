"""Everyday programs: one table a language, [title, code, arguments, value]."""
from cloche import equal, keep_builds, value_of

PYTHON = [
    ("dates", "from datetime import datetime, timedelta, timezone\ndef f(day): return (datetime.fromisoformat(day) + timedelta(days=30)).strftime('%A %d %B %Y')", ["2026-01-31"], "Monday 02 March 2026"),
    ("zones", "from zoneinfo import ZoneInfo\nfrom datetime import datetime\ndef f(): return datetime(2026, 7, 1, 12, tzinfo=ZoneInfo('Europe/Berlin')).isoformat()", [], "2026-07-01T12:00:00+02:00"),
    ("decimals", "from decimal import Decimal\ndef f(a, b): return str((Decimal(a) * Decimal(b)).quantize(Decimal('0.01')))", ["19.99", "3"], "59.97"),
    ("fractions", "from fractions import Fraction\ndef f(): x = Fraction(1, 3) + Fraction(1, 6); return [x.numerator, x.denominator]", [], [1, 2]),
    ("data classes", "from dataclasses import dataclass, field, asdict\n@dataclass(order=True)\nclass Item:\n    price: float\n    name: str = field(compare=False)\ndef f(rows): return [asdict(i) for i in sorted(Item(**r) for r in rows)]",
     [[{"price": 2.5, "name": "b"}, {"price": 1.5, "name": "a"}]], [{"price": 1.5, "name": "a"}, {"price": 2.5, "name": "b"}]),
    ("classes with properties", "class T:\n    def __init__(self, c): self._c = c\n    @property\n    def f(self): return self._c * 9 / 5 + 32\ndef main(c): return T(c).f", [100], 212),
    ("generics", "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Stack(Generic[T]):\n    def __init__(self) -> None: self.items: list[T] = []\n    def push(self, x: T) -> 'Stack[T]': self.items.append(x); return self\ndef f(): return Stack[int]().push(1).push(2).items", [], [1, 2]),
    ("async", "import asyncio\nasync def one(n):\n    await asyncio.sleep(0.001)\n    return n * n\nasync def f(n): return await asyncio.gather(*[one(i) for i in range(n)])", [4], [0, 1, 4, 9], "f"),
    ("archives", "import io, zipfile, tarfile\ndef f(text):\n    b = io.BytesIO()\n    with zipfile.ZipFile(b, 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('a/b.txt', text)\n    return zipfile.ZipFile(b).read('a/b.txt').decode()", ["héllo"], "héllo"),
    ("regular expressions", r"import re" "\n" r"def f(t): return {m['k']: m['v'] for m in re.finditer(r'(?P<k>\w+)=(?P<v>[^;]*)', t)}", ["a=1;b=zwei"], {"a": "1", "b": "zwei"}),
    ("unicode", "import unicodedata\ndef f(s): return [len(s), unicodedata.normalize('NFD', s).encode('ascii', 'ignore').decode(), s[::-1], s.upper()]", ["ñ日😀ß"], [4, "n", "ß😀日ñ", "Ñ日😀SS"]),
    ("csv and json", "import csv, io, json\ndef f(t): return json.loads(json.dumps(list(csv.DictReader(io.StringIO(t)))))", ["a,b\n1,\"x,y\"\n"], [{"a": "1", "b": "x,y"}]),
    ("collections", "from collections import Counter, defaultdict\nfrom itertools import groupby\ndef f(words):\n    d = defaultdict(list)\n    for w in words: d[w[0]].append(w)\n    return [dict(d), Counter(words).most_common(1)[0][0]]", [["ab", "ac", "b", "b"]], [{"a": ["ab", "ac"], "b": ["b", "b"]}, "b"]),
    ("nothing", "def f(x): return [x, [], {}, '', None]", [[]], [[], [], {}, "", None]),
    ("much", "def f(n): return [i % 7 for i in range(n)]", [100000], [i % 7 for i in range(100000)]),
    ("a database", "import sqlite3\ndef f(): c = sqlite3.connect(':memory:'); c.execute('create table t (a, b)'); c.executemany('insert into t values (?, ?)', [(1, 'x'), (2, 'y')]); return c.execute('select sum(a) from t').fetchone()[0]", [], 3),
    ("matching", "def f(x):\n    match x:\n        case {'kind': 'circle', 'r': r}: return 3 * r * r\n        case [a, *rest]: return [a, len(rest)]\n        case _: return 'other'", [[1, 2, 3]], [1, 2]),
    ("threads", "from concurrent.futures import ThreadPoolExecutor\ndef f(n):\n    with ThreadPoolExecutor(4) as p: return list(p.map(lambda x: x * 2, range(n)))", [5], [0, 2, 4, 6, 8]),
    ("processes", "import subprocess\ndef f(): return subprocess.run(['sort', '-n'], input='3\\n1\\n', capture_output=True, text=True).stdout.split()", [], ["1", "3"])]
JAVASCRIPT = [
    ("dates", "function f(d) { const x = new Date(d); x.setUTCDate(x.getUTCDate() + 30); return x.toISOString().slice(0, 10) }", ["2026-01-31"], "2026-03-02"),
    ("dates in words", "function f() { return new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeZone: 'UTC' }).format(new Date(0)) }", [], "1 January 1970"),
    ("money", "function f(n) { return new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' }).format(n) }", [1234.5], "$1,234.50"),
    ("classes", "class A { #n = 0; static make() { return new this() } get n() { return this.#n } add(x) { this.#n += x; return this } }\nclass B extends A { add(x) { return super.add(x * 2) } }\nfunction f(x) { return B.make().add(x).n }", [4], 8),
    ("generators", "function* take(n) { for (let i = 0; i < n; i++) yield i }\nfunction main(n) { return [...take(n)].reduce((a, b) => a + b, 0) }", [5], 10, "main"),
    ("async", "const wait = (ms, v) => new Promise((r) => setTimeout(r, ms, v))\nasync function f() { const all = await Promise.allSettled([wait(1, 'a'), Promise.reject(new Error('no'))]); return all.map((x) => x.status) }", [], ["fulfilled", "rejected"], "f"),
    ("async iteration", "async function* g() { yield 1; yield 2 }\nasync function f() { let s = 0; for await (const x of g()) s += x; return s }", [], 3, "f"),
    ("archives", "const z = require('zlib')\nfunction f(t) { return z.gunzipSync(z.gzipSync(t)).toString() }", ["héllo"], "héllo"),
    ("regular expressions", "function f(t) { return [...t.matchAll(/(?<k>\\w+)=(?<v>[^;]*)/gu)].map(({ groups }) => ({ ...groups })) }", ["a=1;b=ü"], [{"k": "a", "v": "1"}, {"k": "b", "v": "ü"}]),
    ("unicode", "function f(s) { return [s.length, [...s].length, s.normalize('NFD').length, [...s].reverse().join('')] }", ["é😀"], [3, 2, 4, "😀é"]),
    ("modules", "import path from 'node:path'\nimport { createHash } from 'node:crypto'\nexport function f(x) { return [path.extname(x), createHash('sha256').update(x).digest('hex').slice(0, 8)] }", ["a.txt"], [".txt", "18b7cb09"]),
    ("grouping", "function f(rows) { return rows.reduce((all, r) => ({ ...all, [r.k]: [...(all[r.k] ?? []), r.v] }), {}) }", [[{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "a", "v": 3}]], {"a": [1, 3], "b": [2]}),
    ("nothing", "function f(x) { return [x, [], {}, '', null] }", [{}], [{}, [], {}, "", None]),
    ("much", "function f(n) { return Array.from({ length: n }, (_, i) => i % 7) }", [100000], [i % 7 for i in range(100000)]),
    ("large integers", "function f(n) { let r = 1n; for (let i = 2n; i <= BigInt(n); i++) r *= i; return String(r) }", [25], "15511210043330985984000000"),
    ("files", "const fs = require('fs')\nfunction f() { fs.mkdirSync('d', { recursive: true }); fs.writeFileSync('d/a.json', JSON.stringify({ a: 1 })); return [fs.readdirSync('d'), JSON.parse(fs.readFileSync('d/a.json', 'utf8'))] }", [], [["a.json"], {"a": 1}])]
TYPESCRIPT = [
    ("generics", "function groupBy<T, K extends string>(all: T[], key: (x: T) => K): Record<K, T[]> { const r = {} as Record<K, T[]>; for (const x of all) (r[key(x)] ??= []).push(x); return r }\nexport default (w: string[]) => groupBy(w, (x) => x[0] as string)", [["ab", "b", "ac"]], {"a": ["ab", "ac"], "b": ["b"]}),
    ("unions", "type Shape = { kind: 'circle'; r: number } | { kind: 'box'; w: number; h: number }\nfunction area(s: Shape): number { switch (s.kind) { case 'circle': return 3 * s.r ** 2; case 'box': return s.w * s.h; default: { const never: never = s; return never } } }", [{"kind": "box", "w": 2, "h": 3}], 6),
    ("enums", "enum Level { Low = 1, High = Low << 3 }\nconst f = (n: keyof typeof Level): Level => Level[n]", ["High"], 8),
    ("abstract classes", "abstract class A { constructor(protected readonly n: number) {} abstract say(): string }\nclass B extends A { override say(): string { return `b${this.n}` } }\nconst f = (n: number): string => new B(n).say()", [3], "b3"),
    ("a decorator that logs", "function _logged<T extends (...a: any[]) => any>(target: T, { name }: ClassMethodDecoratorContext) { return function (this: unknown, ...a: any[]) { return `${String(name)}:${target.apply(this, a)}` } }\nclass C { @_logged add(a: number, b: number) { return a + b } }\nconst f = () => new C().add(1, 2)", [], "add:3"),
    ("mapped types and infer", "type R<T> = T extends Promise<infer U> ? U : T; type P<T> = { readonly [K in keyof T]?: T[K] }\nasync function f(x: P<{ a: number }>): Promise<R<Promise<number>>> { return (x.a ?? 0) + 1 }", [{"a": 1}], 2),
    ("assertion functions", "function isText(x: unknown): asserts x is string { if (typeof x !== 'string') throw new TypeError('no text') }\nexport const f = (x: unknown): number => { isText(x); return x.length }", ["abc"], 3, "f"),
    ("namespaces", "namespace Geo { export interface P { x: number } export const twice = (p: P): P => ({ x: p.x * 2 }) }\nconst f = (p: Geo.P) => Geo.twice(p).x", [{"x": 4}], 8),
    ("an emitter", "import { EventEmitter } from 'node:events'\nclass Bus extends EventEmitter { last?: number }\nexport const f = (n: number): number | undefined => { const b = new Bus(); b.on('x', (v: number) => { b.last = v }); b.emit('x', n); return b.last }", [7], 7),
    ("tagged templates and tuples", "const tag = (s: TemplateStringsArray, ...v: unknown[]): [number, unknown[]] => [s.length, v]\nexport default (a: number): [number, unknown[]] => tag`x${a}y${'z'}`", [1], [3, [1, "z"]])]
RUBY = [
    ("dates", "require 'date'\ndef f(d) = (Date.parse(d) >> 1).strftime('%A %d %b %Y')", ["2026-01-31"], "Saturday 28 Feb 2026"),
    ("decimals", "require 'bigdecimal'\nrequire 'bigdecimal/util'\ndef f(a, b) = (a.to_d * b.to_d).round(2).to_s('F')", ["19.99", "3"], "59.97"),
    ("structs", "Point = Struct.new(:x, :y, keyword_init: true) { def +(o) = Point.new(x: x + o.x, y: y + o.y) }\ndef f = (Point.new(x: 1, y: 2) + Point.new(x: 3, y: 4)).to_h.transform_keys(&:to_s)", [], {"x": 4, "y": 6}),
    ("modules", "module Loud\n  def say = super.upcase + '!'\nend\nclass A\n  prepend Loud\n  def say = 'hi'\nend\ndef f = A.new.say", [], "HI!"),
    ("comparable", "class V\n  include Comparable\n  attr_reader :n\n  def initialize(n) = @n = n\n  def <=>(o) = n <=> o.n\nend\ndef f(a) = a.map { V.new(_1) }.minmax.map(&:n)", [[3, 1, 2]], [1, 3]),
    ("enumerables", "def f(w) = w.group_by { _1[0] }.transform_values(&:size).sort.to_h", [["ab", "b", "ac"]], {"a": 2, "b": 1}),
    ("lazy", "def f(n) = (1..).lazy.select(&:even?).map { _1 ** 2 }.first(n)", [3], [4, 16, 36]),
    ("regular expressions", "def f(t) = t.scan(/(\\w+)=([^;]*)/).to_h", ["a=1;b=ü"], {"a": "1", "b": "ü"}),
    ("unicode", "def f(s) = [s.length, s.bytesize, s.unicode_normalize(:nfd).length, s.reverse, s.upcase]", ["é😀"], [2, 6, 3, "😀é", "É😀"]),
    ("archives", "require 'zlib'\nrequire 'stringio'\ndef f(t) = Zlib.gunzip(Zlib.gzip(t)).force_encoding('UTF-8')", ["héllo"], "héllo"),
    ("csv and json", "require 'csv'\nrequire 'json'\ndef f(t) = JSON.parse(CSV.parse(t, headers: true).map(&:to_h).to_json)", ["a,b\n1,\"x,y\"\n"], [{"a": "1", "b": "x,y"}]),
    ("patterns", "def f(h)\n  case h\n  in {kind: 'box', w:, h:} then w * h\n  in {kind:} then kind\n  end\nend\ndef main(h) = f(h.transform_keys(&:to_sym))", [{"kind": "box", "w": 2, "h": 3}], 6, "main"),
    ("nothing and much", "def f(n) = [[], {}, '', nil, (0...n).to_a.size]", [100000], [[], {}, "", None, 100000])]
PHP = [
    ("dates", "function f($d) { return (new DateTimeImmutable($d, new DateTimeZone('UTC')))->modify('+30 days')->format('l d F Y'); }", ["2026-01-31"], "Monday 02 March 2026"),
    ("intervals", "function f() { return (new DateTime('2026-01-01'))->diff(new DateTime('2026-03-15'))->days; }", [], 73),
    ("classes", "abstract class Shape { public function __construct(protected float $a) {} abstract public function area(): float; }\nfinal class Sq extends Shape { public function area(): float { return $this->a ** 2; } }\nfunction f($a) { return (new Sq($a))->area(); }", [3], 9),
    ("enums and match", "enum Level: int { case Low = 1; case High = 8; public function label(): string { return match($this) { self::Low => 'l', self::High => 'h' }; } }\nfunction f($n) { return Level::from($n)->label(); }", [8], "h"),
    ("generators", "function gen($n) { for ($i = 0; $i < $n; $i++) yield $i => $i * $i; }\nfunction f($n) { return array_sum(iterator_to_array(gen($n))); }", [4], 14, "f"),
    ("closures", "function f($w) { $n = array_map(fn($x) => strlen($x), $w); usort($w, fn($a, $b) => strlen($b) <=> strlen($a)); return [$n, $w[0]]; }", [["a", "ccc", "bb"]], [[1, 3, 2], "ccc"]),
    ("regular expressions", "function f($t) { preg_match_all('/(?<k>\\w+)=(?<v>[^;]*)/u', $t, $m, PREG_SET_ORDER); return array_column($m, 'v', 'k'); }", ["a=1;b=ü"], {"a": "1", "b": "ü"}),
    ("unicode", "function f($s) { return [strlen($s), count(preg_split('//u', $s, -1, PREG_SPLIT_NO_EMPTY)), iconv_strlen($s), json_encode($s)]; }", ["é😀"], [6, 2, 2, "\"\\u00e9\\ud83d\\ude00\""]),
    ("archives", "function f($t) { return gzdecode(gzencode($t)); }", ["héllo"], "héllo"),
    ("csv and json", "function f($t) { $r = array_map('str_getcsv', explode(\"\\n\", trim($t))); $h = array_shift($r); return json_decode(json_encode(array_map(fn($x) => array_combine($h, $x), $r)), true); }", ["a,b\n1,\"x,y\"\n"], [{"a": "1", "b": "x,y"}]),
    ("exceptions", "function f() { try { throw new InvalidArgumentException('x', 3); } catch (RuntimeException|InvalidArgumentException $e) { return [get_class($e), $e->getCode()]; } finally { } }", [], ["InvalidArgumentException", 3]),
    ("nothing and much", "function f($n) { return [[], '', null, count(range(1, $n))]; }", [100000], [[], "", None, 100000])]
BASH = [
    ("dates", "f() { date -u -d \"$1 +30 days\" '+%A %d %B %Y'; }", ["2026-01-31"], "Monday 02 March 2026"),
    ("associative arrays", "f() { declare -A n; for w in \"$@\"; do ((n[$w]++)); done; echo \"${n[a]} ${n[b]}\"; }", ["a", "b", "a"], "2 1"),
    ("text", "f() { local s=$1; echo \"${s^^} ${s//o/0} ${#s} ${s:1:3}\"; }", ["hello"], "HELLO hell0 5 ell"),
    ("regular expressions", "f() { [[ $1 =~ ^([a-z]+)=([0-9]+)$ ]] && echo \"${BASH_REMATCH[2]}\"; }", ["ab=12"], 12),
    ("awk, sed, sort", "f() { printf '%s\\n' \"$@\" | sort -n | awk '{ s += $1 } END { print s, NR }' | sed 's/ /,/'; }", [3, 1, 2], "6,3"),
    ("archives", "f() { mkdir d && echo \"$1\" > d/a && tar czf a.tgz d && rm -r d && tar xzf a.tgz && cat d/a; }", ["héllo"], "héllo"),
    ("json", "f() { printf '{\"n\": %d, \"all\": [%s]}' $# \"$(IFS=,; echo \"$*\")\"; }", [1, 2], {"n": 2, "all": [1, 2]}),
    ("unicode", "f() { local s=$1; echo \"${#s} ${s:0:1}\"; }", ["é😀"], "2 é"),
    ("much", "f() { seq \"$1\" | wc -l; }", [100000], 100000)]
C = [
    ("structs", "struct p { double x, y; };\nstruct p f(struct p a, struct p b) { struct p r = {a.x + b.x, a.y + b.y}; return r; }", [{"x": 1, "y": 2}, {"x": 3, "y": 4}], {"x": 4, "y": 6}),
    ("text", "#include <ctype.h>\n#include <stdlib.h>\n#include <string.h>\nchar *f(const char *s) { char *r = strdup(s); for (char *p = r; *p; p++) *p = toupper(*p); return r; }", ["abc"], "ABC"),
    ("recursion", "unsigned long long f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }", [20], 6765),
    ("dates", "#include <time.h>\nlong f(int y, int m, int d) { struct tm t = {.tm_year = y - 1900, .tm_mon = m - 1, .tm_mday = d}; return timegm(&t) / 86400; }", [1970, 1, 31], 30),
    ("enums", "enum level { LOW = 1, HIGH = 8 };\nint f(enum level l) { return l * 2; }", [8], 16)]
# One program, for compiling takes long: title, code, type of the argument, argument, value of the function f_<place>.
CPP = [
    ("maps", "#include <map>\n#include <string>\n#include <vector>\nstd::map<std::string, int> f_0(const std::vector<std::string> &w) { std::map<std::string, int> n; for (const auto &x : w) n[x]++; return n; }", "const std::vector<std::string> &", ["a", "b", "a"], {"a": 2, "b": 1}),
    ("sorting by ranges", "#include <algorithm>\n#include <vector>\nstd::vector<int> f_1(std::vector<int> v) { std::ranges::sort(v, std::greater<>{}); return v; }", "std::vector<int>", [1, 3, 2], [3, 2, 1]),
    ("templates and concepts", "#include <concepts>\ntemplate <std::integral T> T twice(T x) { return x * 2; }\nint f_2(int x) { return twice(x); }", "int", 4, 8),
    ("classes", "#include <memory>\n#include <string>\nstruct A { virtual ~A() = default; virtual std::string say() const { return \"a\"; } };\nstruct B : A { std::string say() const override { return \"b\"; } };\nstd::string f_3() { std::unique_ptr<A> x = std::make_unique<B>(); return x->say(); }", None, None, "b"),
    ("regular expressions", "#include <regex>\n#include <string>\nstd::string f_4(const std::string &s) { return std::regex_replace(s, std::regex(\"o+\"), \"0\"); }", "const std::string &", "fooo bo", "f0 b0"),
    ("optional values", "#include <optional>\n#include <string>\nstd::optional<int> f_5(const std::string &s) { try { return std::stoi(s); } catch (...) { return std::nullopt; } }", "const std::string &", "x", None),
    ("threads", "#include <atomic>\n#include <thread>\n#include <vector>\nint f_6(int n) { std::atomic<int> s = 0; { std::vector<std::jthread> all; for (int i = 0; i < n; i++) all.emplace_back([&s, i] { s += i; }); } return s; }", "int", 5, 10)]
PERL = [
    ("regular expressions", "sub f { my %h = $_[0] =~ /(\\w+)=([^;]*)/g; return \\%h }", ["a=1;b=x"], {"a": "1", "b": "x"}),
    ("sorting", "sub f { return [sort { $a <=> $b } @{$_[0]}] }", [[10, 9, 1]], [1, 9, 10]),
    ("classes", "package Counter; sub new { return bless { n => 0 }, shift } sub add { $_[0]{n} += $_[1]; return $_[0] }\npackage main;\nsub f { return Counter->new->add($_[0])->{n} + 0 }", [3], 3, "f")]
TIMEOUT = 300


QUICKLY = '{"flags": ["-O0"]}'  # the library's templates take a third less then


def holds(language, rows):
    wrong, slow = [], {"timeout": 100} if language == "c" else {}  # to compile on a busy machine
    for what, code, args, expected, *function in rows:
        try:
            equal(value_of(language, code, *function, args=args, **slow), expected)
        except AssertionError as failure:
            wrong.append(f"{language}, {what}: {str(failure)[:400]}")
    assert not wrong, "\n".join(wrong)


def test_python():
    holds("python", PYTHON)


def test_javascript():
    holds("javascript", JAVASCRIPT)


def test_typescript():
    holds("typescript", TYPESCRIPT)
    holds("typescript", [row for row in JAVASCRIPT if row[0] not in ("much", "dates in words")])


def test_ruby():
    holds("ruby", RUBY)


def test_php():
    holds("php", PHP)


def test_bash_and_perl():
    holds("bash", BASH)
    holds("perl", PERL)


def test_c():
    keep_builds()
    holds("c", C)


def test_cpp():
    keep_builds()
    rows = [(n, *row) for n, row in enumerate(CPP)]
    parameters = ", ".join(f"{kind} x_{n}" for n, _, _, kind, _, _ in rows if kind)
    calls = ", ".join(f"f_{n}(x_{n})" if kind else f"f_{n}()" for n, _, _, kind, _, _ in rows)
    code = "\n".join([*(code for _, _, code, _, _, _ in rows), "#include <tuple>", f"auto all({parameters}) {{ return std::make_tuple({calls}); }}"])
    values = value_of("cpp", code, "all", args=[argument for _, _, _, kind, argument, _ in rows if kind], build=QUICKLY, timeout=100)
    for (_, what, _, _, _, expected), value in zip(rows, values, strict=True):
        equal(value, expected, what)
