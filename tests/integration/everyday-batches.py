"""Everyday programs, many functions a call: tables of [title, body of a function, value]. Their
values are sent together; for a wrong one, the test names it."""
import textwrap

from cloche import call, equal, keep_builds, skip, value_of

PYTHON = [
    ("number keys", "return {1: 'a', 2: 'b'}", {"$": "map", "v": [[1, "a"], [2, "b"]]}),
    ("a counter", "from collections import Counter; return Counter('abca')", {"a": 2, "b": 1, "c": 1}),
    ("an ordered dict", "from collections import OrderedDict; return OrderedDict([('z', 1), ('a', 2)])", {"z": 1, "a": 2}),
    ("a named tuple", "from collections import namedtuple; P = namedtuple('P', 'x y'); return P(1, 2)._asdict()", {"x": 1, "y": 2}),
    ("a default dict", "from collections import defaultdict; d = defaultdict(int); d['x'] += 2; return d", {"x": 2}),
    ("a chain map", "from collections import ChainMap; return dict(ChainMap({'a': 1}, {'a': 2, 'b': 3}))", {"a": 1, "b": 3}),
    ("a deque", "from collections import deque; d = deque([1, 2], maxlen=2); d.append(3); return d", [2, 3]),
    ("a heap", "import heapq; h = [3, 1, 2]; heapq.heapify(h); return [heapq.heappop(h) for _ in range(3)]", [1, 2, 3]),
    ("bisection", "import bisect; a = [1, 3, 5]; bisect.insort(a, 4); return a", [1, 3, 4, 5]),
    ("sets", "return sorted({1, 2, 3} & {2, 3, 4} | {9})", [2, 3, 9]),
    ("a decimal", "from decimal import Decimal; return Decimal('0.1') + Decimal('0.2')", "0.3"),
    ("a fraction", "from fractions import Fraction; return Fraction(3, 6)", "1/2"),
    ("a complex number", "return (1 + 2j) * 2", {"real": 2, "imag": 4}),
    ("a UUID", "import uuid; return uuid.uuid5(uuid.NAMESPACE_DNS, 'example.org')", "aad03681-8b63-5304-89e0-8ca8f49461b5"),
    ("a path", "from pathlib import Path; return [Path('/a') / 'b.txt', Path('x/y.tar.gz').suffixes]", ["/a/b.txt", [".tar", ".gz"]]),
    ("a time span", "from datetime import timedelta; return timedelta(hours=1, milliseconds=500)", 3600.5),
    ("a day", "from datetime import date; return date(2026, 2, 28)", {"$": "date", "v": "2026-02-28"}),
    ("a time with a zone", "from datetime import datetime, timezone; return datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)", {"$": "date", "v": "2026-01-02T03:04:05Z"}),
    ("a calendar", "import calendar; return [calendar.monthrange(2024, 2)[1], calendar.isleap(2100)]", [29, False]),
    ("an enum", "import enum\nclass C(enum.Enum): RED = 'r'; BLUE = 'b'\nreturn [C.RED, [c.name for c in C], C('b')]", ["r", ["RED", "BLUE"], "b"]),
    ("flags", "import enum\nclass P(enum.IntFlag): R = 4; W = 2\nreturn P.R | P.W", 6),
    ("a data class", "from dataclasses import dataclass, field\n@dataclass\nclass A:\n    n: int\n    tags: list = field(default_factory=list)\nreturn [A(1), A(2, ['x'])]", [{"n": 1, "tags": []}, {"n": 2, "tags": ["x"]}]),
    ("a plain class", "class A:\n    def __init__(self): self.a = 1; self._b = 2\nreturn A()", {"a": 1}),
    ("slots", "class A:\n    __slots__ = ('x',)\n    def __init__(self): self.x = 5\nreturn A()", {"x": 5}),
    ("an abstract class", "from abc import ABC, abstractmethod\nclass S(ABC):\n    @abstractmethod\n    def area(self): ...\nclass Q(S):\n    def area(self): return 4\ntry: S()\nexcept TypeError as e: return [Q().area(), 'abstract' in str(e)]", [4, True]),
    ("a protocol", "from typing import Protocol, runtime_checkable\n@runtime_checkable\nclass P(Protocol):\n    def go(self): ...\nclass A:\n    def go(self): pass\nreturn isinstance(A(), P)", True),
    ("operators", "class V:\n    def __init__(s, x): s.x = x\n    def __add__(s, o): return V(s.x + o.x)\n    def __eq__(s, o): return s.x == o.x\nreturn V(1) + V(2) == V(3)", True),
    ("closures", "def counter():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n        return n\n    return up\nu = counter(); u(); return u()", 2),
    ("a decorator", "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def g(*a): return f(*a) * 2\n    return g\n@twice\ndef h(x): return x + 1\nreturn [h(1), h.__name__]", [4, "h"]),
    ("a cache", "import functools\n@functools.lru_cache\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nreturn fib(80)", 23416728348467685),
    ("a context manager", "from contextlib import contextmanager\nlog = []\n@contextmanager\ndef m():\n    log.append('in')\n    try: yield 5\n    finally: log.append('out')\nwith m() as v: log.append(v)\nreturn log", ["in", 5, "out"]),
    ("recursion", "def flat(x): return [z for y in x for z in (flat(y) if isinstance(y, list) else [y])]\nreturn flat([1, [2, [3, [4]]]])", [1, 2, 3, 4]),
    ("a generator", "def g():\n    x = yield 1\n    yield x * 2\ni = g(); next(i); return i.send(21)", 42),
    ("iterators", "import itertools as it; return [it.chain([1], [2]), map(str, [3]), zip('ab', [1, 2]), it.islice(it.count(), 3)]", [[1, 2], ["3"], [["a", 1], ["b", 2]], [0, 1, 2]]),
    ("views", "d = {'a': 1}; return [d.keys(), d.values(), d.items(), range(3), reversed([1, 2])]", [["a"], [1], [["a", 1]], [0, 1, 2], [2, 1]]),
    ("bytes", "return [b'\\x00\\xff', bytearray(b'ab'), 'é'.encode()]", [b"\x00\xff", b"ab", "é".encode()]),
    ("binary records", "import struct; return list(struct.unpack('<IhB', struct.pack('<IhB', 70000, -2, 255)))", [70000, -2, 255]),
    ("base64 and hashes", "import base64, hashlib; return [base64.b64encode(b'hi').decode(), hashlib.sha256(b'a').hexdigest()[:8], hashlib.md5(b'a').hexdigest()[:8]]", ["aGk=", "ca978112", "0cc175b9"]),
    ("gzip", "import gzip; return gzip.decompress(gzip.compress('é'.encode() * 1000)).decode()[:2]", "éé"),
    ("a tar archive", "import io, tarfile\nb = io.BytesIO()\nwith tarfile.open(fileobj=b, mode='w:gz') as t:\n    i = tarfile.TarInfo('x'); i.size = 2; t.addfile(i, io.BytesIO(b'hi'))\nb.seek(0)\nwith tarfile.open(fileobj=b) as t: return [t.getnames(), t.extractfile('x').read().decode()]", [["x"], "hi"]),
    ("XML", "import xml.etree.ElementTree as E; r = E.fromstring('<a><b k=\"1\">x</b></a>'); return [r.find('b').text, r.find('b').get('k')]", ["x", "1"]),
    ("HTML entities", "import html; return [html.escape('<&>'), html.unescape('&eacute;')]", ["&lt;&amp;&gt;", "é"]),
    ("URLs", "from urllib.parse import urlparse, parse_qs, quote; u = urlparse('https://example.org/p?a=1&a=2'); return [u.netloc, parse_qs(u.query), quote('ä b')]", ["example.org", {"a": ["1", "2"]}, "%C3%A4%20b"]),
    ("a sqlite row", "import sqlite3\nc = sqlite3.connect(':memory:'); c.row_factory = sqlite3.Row\nreturn c.execute('select 1 as a, \"x\" as b').fetchall()", [{"a": 1, "b": "x"}]),
    ("templates", "from string import Template; x = 3; return [Template('$a!').substitute(a=1), f'{x:>4}|{x!r}|{1e6:,.2f}', '%05.1f' % 2.25]", ["1!", "   3|3|1,000,000.00", "002.2"]),
    ("text", "import textwrap; return [textwrap.dedent('  a\\n  b'), 'a,b,,c'.split(','), ' x '.strip(), 'abc'.translate(str.maketrans('a', 'z'))]", ["a\nb", ["a", "b", "", "c"], "x", "zbc"]),
    ("regular expressions", r"import re; return [re.sub(r'(\d+)', lambda m: str(int(m[1]) * 2), 'a1b22'), re.split(r'[,;]\s*', 'a, b;c'), re.findall(r'(?i)X(.)', 'xaXb')]", ["a2b44", ["a", "b", "c"], ["a", "b"]]),
    ("a pattern", "import re; return re.compile('a+', re.I)", {"$": "regexp", "source": "a+", "flags": "i"}),
    ("statistics", "import statistics as s; return [s.mean([1, 2, 4]), s.median([3, 1, 2]), round(s.stdev([1, 2, 3]), 3)]", [7 / 3, 2, 1.0]),
    ("mathematics", "import math; return [math.comb(5, 2), math.gcd(12, 18), math.isqrt(17), round(math.pi, 4), math.factorial(20)]", [10, 6, 4, 3.1416, 2432902008176640000]),
    ("large integers", "return [2 ** 100, -(2 ** 64), int('ff', 16), 7 // -2, -7 % 3]", [2 ** 100, -(2 ** 64), 255, -4, 2]),
    ("odd numbers", "return [float('inf'), float('-inf'), 1e308 * 10 == float('inf'), -0.0]", [{"$": "number", "v": "Infinity"}, {"$": "number", "v": "-Infinity"}, True, {"$": "number", "v": "-0"}]),
    ("random with a seed", "import random; r = random.Random(1); return [r.randint(1, 100), r.choice('abc'), len(r.sample(range(10), 3))]", [18, "c", 3]),
    ("exceptions as values", "try: {}['k']\nexcept KeyError as e: return e", {"name": "KeyError", "message": "'k'"}),
    ("groups of exceptions", "try: raise ExceptionGroup('g', [ValueError('a'), TypeError('b')])\nexcept* ValueError as g: n = len(g.exceptions)\nexcept* TypeError: pass\nreturn n", 1),
    ("asyncio", "import asyncio\nasync def one(q):\n    return await q.get()\nasync def main():\n    q = asyncio.Queue(); t = asyncio.create_task(one(q)); await q.put(7); return await asyncio.wait_for(t, 5)\nreturn asyncio.run(main())", 7),
    ("threads", "import threading\nl = threading.Lock(); n = [0]\ndef w():\n    for _ in range(100):\n        with l: n[0] += 1\nt = [threading.Thread(target=w) for _ in range(4)]\nfor x in t: x.start()\nfor x in t: x.join()\nreturn n[0]", 400),
    ("files", "import json, os, tempfile, glob\nd = tempfile.mkdtemp()\nwith open(os.path.join(d, 'a.json'), 'w', encoding='utf-8') as f: json.dump({'é': [1]}, f, ensure_ascii=False)\nreturn [os.listdir(d), json.load(open(glob.glob(d + '/*.json')[0]))]", [["a.json"], {"é": [1]}]),
    ("a configuration", "import configparser; c = configparser.ConfigParser(); c.read_string('[a]\\nx = 1'); return c['a'].getint('x')", 1),
    ("TOML", "import tomllib; return tomllib.loads('[a]\\nx = [1, 2.5]')", {"a": {"x": [1, 2.5]}}),
    ("arguments", "import argparse; p = argparse.ArgumentParser(); p.add_argument('--n', type=int); return p.parse_args(['--n', '5'])", {"n": 5}),
    ("logging", "import io, logging; s = io.StringIO(); l = logging.getLogger('x'); l.addHandler(logging.StreamHandler(s)); l.warning('hot %d', 1); return s.getvalue()", "hot 1\n"),
    ("unicode", "import unicodedata as u; return [len('👨‍👩‍👧'), u.name('é'), 'ß'.casefold(), 'İ'.lower() != 'i', sorted(['é', 'z', 'a'])]", [5, "LATIN SMALL LETTER E WITH ACUTE", "ss", True, ["a", "z", "é"]]),
    ("nothing", "return [None, [], {}, '', (), set(), b'', 0, False]", [None, [], {}, "", [], {"$": "set", "v": []}, b"", 0, False]),
]
FRAMES = [
    ("a frame", "return pd.DataFrame({'a': [1, 2], 'b': ['x', None]})", [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
    ("groups", "return pd.DataFrame({'k': ['a', 'b', 'a'], 'v': [1, 2, 3]}).groupby('k')['v'].sum()", {"a": 4, "b": 2}),
    ("several columns", "return pd.DataFrame({'k': ['a', 'a'], 'v': [1, 3]}).groupby('k').agg(low=('v', 'min'), high=('v', 'max')).reset_index()", [{"k": "a", "low": 1, "high": 3}]),
    ("a join", "return pd.DataFrame({'i': [1, 2], 'a': [3, 4]}).merge(pd.DataFrame({'i': [2], 'b': [5]}), on='i')", [{"i": 2, "a": 4, "b": 5}]),
    ("a pivot", "return pd.DataFrame({'d': ['x', 'y'], 'c': ['p', 'p'], 'v': [1, 2]}).pivot_table(index='d', columns='c', values='v').to_dict()", {"p": {"x": 1, "y": 2}}),
    ("CSV", "import io; return pd.read_csv(io.StringIO('a,b\\n1,2.5\\n3,')).fillna(0)", [{"a": 1, "b": 2.5}, {"a": 3, "b": 0}]),
    ("dates", "return pd.to_datetime(pd.Series(['2026-01-31'])).dt.strftime('%d.%m.%Y')", ["31.01.2026"]),
    ("a timestamp", "return [pd.Timestamp('2026-01-31'), pd.Timedelta('1h'), pd.NaT]", [{"$": "date", "v": "2026-01-31T00:00:00"}, 3600, {"$": "date", "v": None}]),
    ("missing values", "return pd.DataFrame({'a': [1.0, None]}).isna().sum().to_dict()", {"a": 1}),
    ("an index", "return [pd.Index(['a', 'b']), pd.Series([1, 2]), pd.Series([1], index=['x'])]", [["a", "b"], [1, 2], {"x": 1}]),
    ("scalars", "return [np.int64(5), np.float32(0.5), np.bool_(True), np.str_('x')]", [5, 0.5, True, "x"]),
    ("a matrix", "return (np.arange(4).reshape(2, 2) @ np.eye(2)).tolist()", [[0, 1], [2, 3]]),
    ("two dimensions", "return np.array([[1, 2], [3, 4]])", [[1, 2], [3, 4]]),
    ("statistics", "a = np.array([1, 2, 3, 4]); return [a.mean(), float(np.percentile(a, 50)), a[a > 2].sum()]", [2.5, 2.5, 7]),
]
JAVASCRIPT = [
    ("objects", "const { a, ...rest } = { a: 1, b: 2 }; return { ...rest, c: a ?? 0, d: rest?.x?.y }", {"b": 2, "c": 1, "d": None}),
    ("entries", "return Object.fromEntries(Object.entries({ a: 1, b: 2 }).map(([k, v]) => [v, k]))", {"1": "a", "2": "b"}),
    ("a map", "return new Map([['a', 1], [2, 'b']])", {"$": "map", "v": [["a", 1], [2, "b"]]}),
    ("a set", "return new Set([1, 1, 'x'])", {"$": "set", "v": [1, "x"]}),
    ("a date", "return new Date(Date.UTC(2026, 0, 2))", {"$": "date", "v": "2026-01-02T00:00:00.000Z"}),
    ("a pattern", "return /a+/gi", {"$": "regexp", "source": "a+", "flags": "gi"}),
    ("bytes", "return [new Uint8Array([0, 255]), Buffer.from('hi'), new TextEncoder().encode('é')]", [b"\x00\xff", b"hi", "é".encode()]),
    ("bigints", "return [2n ** 64n, BigInt('9007199254740993')]", [2 ** 64, 9007199254740993]),
    ("a class with methods", "class P { #s = 1; constructor () { this.x = 1 } get y () { return 2 } go = () => 3; add () { return 4 } }; return new P()", {"x": 1}),
    ("toJSON", "class M { constructor (n) { this.n = n } toJSON () { return { amount: this.n } } }; return [new M(5), { a: new M(6) }]", [{"amount": 5}, {"a": {"amount": 6}}]),
    ("functions among the members", "return { a: 1, f () {}, [Symbol.iterator]: undefined, g: () => 1 }", {"a": 1}),
    ("a proxy", "return new Proxy({ a: 1 }, { get: (o, k) => k in o ? o[k] + 1 : undefined })", {"a": 2}),
    ("getters", "return { get full () { return `${this.a}b` }, a: 'a' }", {"full": "ab", "a": "a"}),
    ("inheritance", "class A { constructor () { this.t = new.target.name } static of () { return new this() } }; class B extends A {}; return B.of()", {"t": "B"}),
    ("private members", "class C { static #n = 0; static up () { return ++C.#n } }; C.up(); return C.up()", 2),
    ("closures", "const up = ((n) => () => ++n)(5); up(); return up()", 7),
    ("currying", "const add = (a) => (b) => (c) => a + b + c; return add(1)(2)(3)", 6),
    ("recursion", "const flat = (x) => x.flatMap((y) => Array.isArray(y) ? flat(y) : y); return flat([1, [2, [3]]])", [1, 2, 3]),
    ("generators", "function * g () { const x = yield 1; yield x * 2 }; const i = g(); i.next(); return i.next(21).value", 42),
    ("iterators", "return { m: new Map([['a', 1]]).keys(), e: [5].entries(), g: (function * () { yield 1 })() }", {"m": ["a"], "e": [[0, 5]], "g": [1]}),
    ("array methods", "return [[3, 1, 2].toSorted?.() ?? [1, 2, 3], [1, 2, 3].at(-1), [1, [2]].flat(), [1, 2, 3].findLast((x) => x < 3), Array.from('ab', (c) => c + c)]", [[1, 2, 3], 3, [1, 2], 2, ["aa", "bb"]]),
    ("reducing", "return ['a', 'b', 'a'].reduce((n, w) => ({ ...n, [w]: (n[w] ?? 0) + 1 }), {})", {"a": 2, "b": 1}),
    ("sorting", "return [{ n: 'b' }, { n: 'a' }].sort((x, y) => x.n.localeCompare(y.n)).map((x) => x.n)", ["a", "b"]),
    ("template strings", "const tag = (s, ...v) => s.raw.join('|') + v.join(); return [`a${1 + 1}b`, tag`x\\n${1}y`]", ["a2b", "x\\n|y1"]),
    ("text", "return ['a-b'.replaceAll('-', '+'), 'x'.padStart(3, '.'), ' a '.trim(), 'abc'.slice(-2), 'a,b'.split(',')]", ["a+b", "..x", "a", "bc", ["a", "b"]]),
    ("replacing with a function", "return 'a1b22'.replace(/\\d+/g, (d) => d * 2)", "a2b44"),
    ("named groups", "return { ...'2026-01'.match(/(?<y>\\d+)-(?<m>\\d+)/).groups }", {"y": "2026", "m": "01"}),
    ("numbers", "return [0.1 + 0.2, (1234.5).toFixed(2), parseInt('ff', 16), Number('1e3'), Math.max(...[1, 3]), 7 % -3]", [0.30000000000000004, "1234.50", 255, 1000, 3, 1]),
    ("odd numbers", "return [NaN, Infinity, -0]", [{"$": "number", "v": "NaN"}, {"$": "number", "v": "Infinity"}, {"$": "number", "v": "-0"}]),
    ("nothing", "return [null, undefined, [], {}, '', 0, false]", [None, None, [], {}, "", 0, False]),
    ("errors as values", "try { null.x } catch (e) { return { name: e.name, is: e instanceof TypeError } }", {"name": "TypeError", "is": True}),
    ("errors with causes", "const e = new Error('out', { cause: new Error('in') }); return e.cause.message", "in"),
    ("awaiting", "const f = async (x) => x * 2; return await Promise.all([1, 2].map(f))", [2, 4]),
    ("races", "return await Promise.race([new Promise((r) => setTimeout(r, 5000, 'slow').unref()), Promise.resolve('fast')])", "fast"),
    ("any", "return await Promise.any([Promise.reject(new Error('a')), Promise.resolve(1)])", 1),
    ("streams", "const { Readable } = require('stream'); let s = ''; for await (const x of Readable.from(['a', 'b'])) s += x; return s", "ab"),
    ("events", "const { EventEmitter, once } = require('events'); const e = new EventEmitter(); setImmediate(() => e.emit('x', 5)); return await once(e, 'x')", [5]),
    ("hashes", "const c = require('crypto'); return [c.createHash('md5').update('a').digest('hex').slice(0, 8), c.createHmac('sha256', 'k').update('a').digest('base64').length]", ["0cc175b9", 44]),
    ("base64", "return [btoa('hi'), Buffer.from('aGk=', 'base64').toString()]", ["aGk=", "hi"]),
    ("compression", "const z = require('zlib'); return z.inflateSync(z.deflateSync(Buffer.from('é'.repeat(1000)))).toString().length", 1000),
    ("files", "const fs = require('fs/promises'); await fs.mkdir('/tmp/j/k', { recursive: true }); await fs.writeFile('/tmp/j/k/a', 'x'); return await fs.readdir('/tmp/j', { recursive: false })", ["k"]),
    ("paths and URLs", "const p = require('path'); const u = new URL('https://example.org/p?a=1'); return [p.join('a', '..', 'b'), u.host, u.searchParams.get('a'), u]", ["b", "example.org", "1", "https://example.org/p?a=1"]),
    ("typed arrays", "return Array.from(new Float32Array([1.5, 2]).map((x) => x * 2))", [3, 4]),
    ("a data view", "const d = new DataView(new ArrayBuffer(4)); d.setInt16(0, -2); return d.getUint16(0)", 65534),
    ("weak references and symbols", "const m = new WeakMap(); const k = {}; m.set(k, 5); return [m.get(k), Symbol('x').description]", [5, "x"]),
    ("dates in time zones", "return new Date('2026-07-01T12:00:00Z').toLocaleString('en-GB', { timeZone: 'Europe/Berlin', hour: '2-digit', minute: '2-digit' })", "14:00"),
    ("lists in words", "return [new Intl.ListFormat('en').format(['a', 'b', 'c']), new Intl.PluralRules('en').select(1)]", ["a, b, and c", "one"]),
    ("copies", "const a = { d: new Date(0), m: new Map([[1, 2]]) }; const b = structuredClone(a); return [b.d.getTime(), b.m.get(1), b !== a]", [0, 2, True]),
    ("JSON", "return JSON.parse('{\"a\":[1,{\"b\":null}]}', (k, v) => v === null ? 0 : v)", {"a": [1, {"b": 0}]}),
    ("unicode", "return [[...'👍🏽'].length, 'é'.normalize('NFD').length, 'ß'.toUpperCase(), '日本'.codePointAt(0)]", [2, 2, "SS", 26085]),
]
TYPESCRIPT = [
    ("interfaces", "interface A { a: number; b?: string }; const x: A = { a: 1 }; return x", {"a": 1}),
    ("enums", "enum E { A, B = 'b' }; return [E.A, E.B, E[0]]", [0, "b", "A"]),
    ("generics", "class Box<T> { constructor(public readonly v: T) {} map<U>(f: (x: T) => U): Box<U> { return new Box(f(this.v)) } }; return new Box(2).map((x) => `${x}!`)", {"v": "2!"}),
    ("parameter properties", "class P { constructor(private a = 1, protected b = 2) {} sum(): number { return this.a + this.b } }; return new P().sum()", 3),
    ("satisfies and as const", "const c = { a: 1 } satisfies Record<string, number>; const t = [1, 'x'] as const; return [c.a, t[1]]", [1, "x"]),
    ("unions", "type R = { ok: true; v: number } | { ok: false; e: string }; const f = (r: R): string => r.ok ? `${r.v}` : r.e; return [f({ ok: true, v: 1 }), f({ ok: false, e: 'no' })]", ["1", "no"]),
    ("overloads and guards", "function len(x: string): number; function len(x: unknown[]): number; function len(x: any): number { return x.length }; const isN = (x: unknown): x is number => typeof x === 'number'; return [len('abc'), len([1]), [1, 'a'].filter(isN)]", [3, 1, [1]]),
    ("abstract classes", "abstract class S { abstract area(): number; twice(): number { return this.area() * 2 } }; class Q extends S { area(): number { return 4 } }; return new Q().twice()", 8),
    ("optional and non-null", "const o: { a?: { b: number } } = { a: { b: 5 } }; return [o.a!.b, o?.a?.b ?? 0, <number>(o.a as any).b]", [5, 5, 5]),
    ("a namespace of types", "type Keys<T> = { [K in keyof T as `get${Capitalize<string & K>}`]: () => T[K] }; const g: Keys<{ a: number }> = { getA: () => 7 }; return g.getA()", 7),
]
RUBY = [
    ("hashes", "{a: 1, 'b' => 2}.merge(c: 3).transform_values { |v| v * 2 }", {"a": 2, "b": 4, "c": 6}),
    ("number keys", "{1 => 'a'}", {"$": "map", "v": [[1, "a"]]}),
    ("symbols", "[:a, %i[b c], :'d e']", ["a", ["b", "c"], "d e"]),
    ("ranges", "[(1..4).sum, ('a'..'e').to_a.last, (1...10).step(3).to_a, 1..3]", [10, "e", [1, 4, 7], [1, 2, 3]]),
    ("a struct", "Struct.new(:x, :y).new(1, 2)", {"x": 1, "y": 2}),
    ("an object", "Class.new { def self.name = 'P'; def initialize; @a = 1; @_b = 2; end }.new", {"a": 1}),
    ("an open struct", "require 'ostruct'; OpenStruct.new(a: 1)", {"a": 1}),
    ("sets", "require 'set'; Set[1, 2] | Set[2, 3]", {"$": "set", "v": [1, 2, 3]}),
    ("a big decimal", "require 'bigdecimal'; BigDecimal('0.1') + BigDecimal('0.2')", "0.3"),
    ("rationals", "[Rational(1, 2) + Rational(1, 3), Complex(1, 2)]", ["5/6", {"real": 1, "imag": 2}]),
    ("large integers", "[2**100, 10.digits, 255.to_s(2), -7 / 2, -7 % 3]", [2 ** 100, [0, 1], "11111111", -4, 2]),
    ("numbers", "[10.fdiv(4), 3.7.floor, 1234.5678.round(2), 1e3.to_i, 5.clamp(1, 3)]", [2.5, 3, 1234.57, 1000, 3]),
    ("odd numbers", "[Float::INFINITY, -0.0]", [{"$": "number", "v": "Infinity"}, {"$": "number", "v": "-0"}]),
    ("a time", "Time.utc(2026, 1, 2, 3, 4, 5)", {"$": "date", "v": "2026-01-02T03:04:05Z"}),
    ("a day", "require 'date'; [Date.new(2026, 1, 31) >> 1, (Date.new(2026, 3, 1) - Date.new(2026, 2, 1)).to_i]", [{"$": "date", "v": "2026-02-28"}, 28]),
    ("a pattern", "[/a+/i, /^x$/]", [{"$": "regexp", "source": "a+", "flags": "i"}, {"$": "regexp", "source": "^x$", "flags": "m"}]),
    ("matching", "m = 'k=v'.match(/(?<a>\\w)=(?<b>\\w)/); [m[:a], m.named_captures, 'a1b2'.gsub(/\\d/) { |d| (d.to_i + 1).to_s }, $~ && $~[0]]", ["k", {"a": "k", "b": "v"}, "a2b3", "2"]),
    ("heredocs", "<<~T\n  a\n    b\nT", "a\n  b\n"),
    ("formats", "['%05.1f' % 2.25, 'x'.rjust(3, '.'), format('%-4s|%x', 'a', 255), 'abc'.tr('a-b', 'x')]", ["002.2", "..x", "a   |ff", "xxc"]),
    ("text", "['a,b,,c'.split(','), 'hello world'.split.map(&:capitalize).join(' '), 'abc'.each_char.to_a, 'aab'.squeeze, 'x' * 3]", [["a", "b", "", "c"], "Hello World", ["a", "b", "c"], "ab", "xxx"]),
    ("enumerables", "[[1, 2, 3, 4].partition(&:even?), [1, 2, 3].each_slice(2).to_a, %w[a b].each_with_index.to_h, [3, 1].sort.reverse, [1, 2, 2].tally]", [[[2, 4], [1, 3]], [[1, 2], [3]], {"a": 0, "b": 1}, [3, 1], {"$": "map", "v": [[1, 1], [2, 2]]}]),
    ("reducing", "[(1..5).reduce(:*), [1, 2].inject { |a, b| a - b }, [[1, 2], [3]].flatten, [nil, 1].compact, [1, 2].zip([3, 4])]", [120, -1, [1, 2, 3], [1], [[1, 3], [2, 4]]]),
    ("enumerators", "[[1, 2].each, (1..Float::INFINITY).lazy.map { |x| x * 2 }.first(2), Enumerator.new { |y| y << 1 << 2 }.next]", [[1, 2], [2, 4], 1]),
    ("blocks and procs", "add = ->(a, b = 2) { a + b }; [add.(1), add.curry.arity, %w[a b].map(&:upcase), (add >> ->(x) { x * 10 }).call(1, 1)]", [3, -1, ["A", "B"], 20]),
    ("errors", "begin; Integer('x'); rescue ArgumentError => e; [e.class.name, e.message]; ensure; 1; end", ["ArgumentError", 'invalid value for Integer(): "x"']),
    ("errors as values", "begin; {}.fetch(:k); rescue KeyError => e; e; end.message", "key not found: :k"),
    ("catch and throw", "catch(:done) { 10.times { |i| throw :done, i if i == 3 }; :never }", 3),
    ("refined methods", "o = Object.new; def o.method_missing(n, *a) = n.to_s.end_with?('?') ? a : super; def o.respond_to_missing?(*) = true; o.any_thing?(1)", [1]),
    ("comparing", "[[1, 2] <=> [1, 3], %w[b a].min, [1, 5].minmax, 1.between?(0, 2), [1] == [1.0]]", [-1, "a", [1, 5], True, True]),
    ("JSON", "require 'json'; JSON.parse('{\"a\": [1, null]}', symbolize_names: true)[:a]", [1, None]),
    ("YAML", "require 'yaml'; YAML.load(\"a: 1\\nb: [x, y]\")", {"a": 1, "b": ["x", "y"]}),
    ("hashes of bytes", "require 'digest'; require 'base64'; [Digest::SHA256.hexdigest('a')[0, 8], Base64.strict_encode64('hi'), [1, 2].pack('C*').unpack('C*')]", ["ca978112", "aGk=", [1, 2]]),
    ("bytes", "['ab'.b, [255, 0].pack('C*')]", [b"ab", b"\xff\x00"]),
    ("files", "require 'tmpdir'; Dir.mktmpdir { |d| File.write(\"#{d}/a\", \"x\\ny\"); [Dir.children(d), File.readlines(\"#{d}/a\", chomp: true)] }", [["a"], ["x", "y"]]),
    ("threads", "q = Queue.new; 3.times.map { |i| Thread.new { q << i } }.each(&:join); q.size", 3),
    ("fibers", "f = Fiber.new { |x| y = Fiber.yield(x + 1); y * 2 }; [f.resume(1), f.resume(10)]", [2, 20]),
    ("ERB", "require 'erb'; ERB.new('<% 2.times do |i| %><%= i %>,<% end %>').result", "0,1,"),
    ("unicode", "['é😀'.chars.size, 'é'.unicode_normalize(:nfd).size, 'ÄÖ'.downcase, 'a' <=> 'é']", [2, 2, "äö", -1]),
    ("nothing", "[nil, [], {}, '', 0, false]", [None, [], {}, "", 0, False]),
]
PHP = [
    ("arrays", "return [array_merge([1], [2]), ['a' => 1] + ['a' => 2, 'b' => 3], array_slice([1, 2, 3], 1), array_unique([1, 1])];", [[1, 2], {"a": 1, "b": 3}, [2, 3], [1]]),
    ("sparse arrays", "return [3 => 'a', 5 => 'b'];", {"3": "a", "5": "b"}),
    ("spreading", "[$a, , $c] = [1, 2, 3]; ['k' => $k] = ['k' => 4]; return [...[$a, $c], ...[$k]];", [1, 3, 4]),
    ("columns", "return array_column([['i' => 1, 'n' => 'a'], ['i' => 2, 'n' => 'b']], 'n', 'i');", {"1": "a", "2": "b"}),
    ("mapping", "return [array_map(null, [1, 2], [3, 4]), array_filter([1, null, 2]), array_reduce([1, 2, 3], fn ($c, $x) => $c + $x, 0), array_sum([1.5, 2])];", [[[1, 3], [2, 4]], {"0": 1, "2": 2}, 6, 3.5]),
    ("sorting", "$a = ['b' => 1, 'a' => 2]; ksort($a); $n = ['img12', 'img2']; natsort($n); return [$a, array_values($n)];", [{"a": 2, "b": 1}, ["img2", "img12"]]),
    ("an object", "$o = new stdClass; $o->a = 1; $o->{'b c'} = [2]; return $o;", {"a": 1, "b c": [2]}),
    ("a class", "return new class { public int $x = 1; protected $y = 2; public ?string $z = null; };", {"x": 1, "z": None}),
    ("JsonSerializable", "return new class implements JsonSerializable { public function jsonSerialize(): mixed { return ['v' => 7]; } };", {"v": 7}),
    ("promoted and read-only", "$c = new class(5) { public function __construct(public readonly int $n) {} }; try { $c->n = 6; } catch (Error $e) { return [$c->n, str_contains($e->getMessage(), 'readonly')]; }", [5, True]),
    ("magic methods", "$o = new class { public function __get($n) { return \"got $n\"; } public function __call($n, $a) { return [$n, $a]; } }; return [$o->x, $o->go(1)];", ["got x", ["go", [1]]]),
    ("static members", "$c = get_class(new class { public static int $n = 0; public static function up() { return ++static::$n; } }); $c::up(); return $c::up();", 2),
    ("closures", "$n = 5; $up = function () use (&$n) { return ++$n; }; $up(); return [$up(), (fn ($x) => $x * $n)(2), array_map(strtoupper(...), ['a'])];", [7, 14, ["A"]]),
    ("match", "return array_map(fn ($x) => match (true) { $x < 0 => 'neg', $x === 0 => 'zero', default => 'pos' }, [-1, 0, 1]);", ["neg", "zero", "pos"]),
    ("null safety", "$o = null; return [$o?->a?->b, $x ?? 'default', $o ?: 'else'];", [None, "default", "else"]),
    ("heredocs", "$a = 'x'; return [<<<T\n  v: {$a}\n    w\n  T, <<<'N'\n  $a\n  N];", ["v: x\n  w", "$a"]),
    ("formats", "return [sprintf('%05.2f|%-4s|%x', 2.25, 'a', 255), number_format(1234567.891, 2), str_pad('x', 3, '.', STR_PAD_LEFT), ucwords('a b')];", ["02.25|a   |ff", "1,234,567.89", "..x", "A B"]),
    ("text", "return [explode(',', 'a,b,,c'), implode('-', [1, 2]), trim(' a '), str_replace(['a', 'b'], 'x', 'abc'), substr('hello', -3), strrev('abc'), wordwrap('aa bb', 2, '|', true)];", [["a", "b", "", "c"], "1-2", "a", "xxc", "llo", "cba", "aa|bb"]),
    ("regular expressions", "preg_match('/(?<y>\\d+)-(\\d+)/', '2026-01', $m); return [$m['y'], $m[2], preg_replace_callback('/\\d+/', fn ($d) => $d[0] * 2, 'a1b22'), preg_split('/[,;]\\s*/', 'a, b;c')];", ["2026", "01", "a2b44", ["a", "b", "c"]]),
    ("numbers", "return [intdiv(7, 2), 7 % -3, 0.1 + 0.2, round(2.5), PHP_INT_MAX, 10 ** 3, (int) '12abc', base_convert('ff', 16, 2)];", [3, 1, 0.30000000000000004, 3, 2 ** 63 - 1, 1000, 12, "11111111"]),
    ("odd numbers", "return [INF, -0.0, is_nan(NAN)];", [{"$": "number", "v": "Infinity"}, {"$": "number", "v": "-0"}, True]),
    ("a date", "return new DateTimeImmutable('2026-01-31 10:00', new DateTimeZone('UTC'));", {"$": "date", "v": "2026-01-31T10:00:00Z"}),
    ("dates", "$a = new DateTime('2026-01-31'); return [$a->modify('last day of next month')->format('Y-m-d'), date('D', 0), iterator_count(new DatePeriod(new DateTime('2026-01-01'), new DateInterval('P1D'), 3)), new DateInterval('P1DT2H')];", ["2026-02-28", "Thu", 4, "P1DT2H"]),
    ("generators", "$g = (function () { $x = yield 1; yield $x * 2; return 9; })(); $g->current(); $v = $g->send(21); $g->next(); return [$v, $g->getReturn()];", [42, 9]),
    ("iterators", "return ['a' => new ArrayIterator([1, 2]), 'g' => (function () { yield 'k' => 1; })()];", {"a": [1, 2], "g": {"k": 1}}),
    ("collections", "$s = new SplStack; $s->push(1); $s->push(2); $q = new SplPriorityQueue; $q->insert('lo', 1); $q->insert('hi', 9); $f = SplFixedArray::fromArray([5]); return [$s->pop(), $q->extract(), $f];", [2, "hi", [5]]),
    ("exceptions", "try { throw new DomainException('d', 4, new Exception('in')); } catch (LogicException $e) { return [$e::class, $e->getCode(), $e->getPrevious()->getMessage()]; } finally { $x = 1; }", ["DomainException", 4, "in"]),
    ("errors of types", "try { (function (int $x) {})('a'); } catch (TypeError $e) { $t = 1; } try { intdiv(1, 0); } catch (DivisionByZeroError $e) { return [$t, $e->getMessage()]; }", [1, "Division by zero"]),
    ("JSON", "try { json_decode('{', flags: JSON_THROW_ON_ERROR); } catch (JsonException $e) { return [json_decode('{\"a\":[1,null]}', true), json_encode(['é' => 1], JSON_UNESCAPED_UNICODE), $e->getMessage()]; }", [{"a": [1, None]}, "{\"é\":1}", "Syntax error"]),
    ("hashes", "return [md5('a'), substr(hash('sha256', 'a'), 0, 8), base64_encode('hi'), bin2hex(\"\\xff\"), crc32('a'), password_verify('p', password_hash('p', PASSWORD_BCRYPT, ['cost' => 4]))];", ["0cc175b9c0f1b6a831c399e269772661", "ca978112", "aGk=", "ff", 3904355907, True]),
    ("bytes", "return [\"\\xff\\x00\", pack('nC', 258, 3), unpack('nx/Cy', \"\\1\\2\\3\")];", [b"\xff\x00", "\1\2\3", {"x": 258, "y": 3}]),
    ("files", "$d = sys_get_temp_dir() . '/p'; mkdir($d); file_put_contents(\"$d/a\", \"x\\ny\\n\"); $f = new SplFileObject(\"$d/a\"); return [array_values(array_diff(scandir($d), ['.', '..'])), file(\"$d/a\", FILE_IGNORE_NEW_LINES), $f->fgets()];", [["a"], ["x", "y"], "x\n"]),
    ("CSV", "$h = fopen('php://memory', 'w+'); fputcsv($h, ['a', 'b \"c\"']); rewind($h); return fgetcsv($h);", ["a", "b \"c\""]),
    ("output", "ob_start(); echo 'x'; print 'y'; return ob_get_clean();", "xy"),
    ("URLs", "parse_str('a[]=1&a[]=2&b=x', $q); return [parse_url('https://example.org/p?q=1')['host'], $q, http_build_query(['a' => 'ä b']), filter_var('1.2.3.4', FILTER_VALIDATE_IP)];", ["example.org", {"a": ["1", "2"], "b": "x"}, "a=%C3%A4+b", "1.2.3.4"]),
    ("recursion", "$f = function ($n) use (&$f) { return $n < 2 ? $n : $f($n - 1) + $f($n - 2); }; return $f(15);", 610),
    ("references", "$a = [1, 2]; foreach ($a as &$x) $x *= 2; unset($x); $swap = function (&$p, &$q) { [$p, $q] = [$q, $p]; }; $swap($a[0], $a[1]); return $a;", [4, 2]),
    ("nothing", "return [null, [], '', 0, false, new stdClass];", [None, [], "", 0, False, {}]),
]
BASH = [
    ("arrays", "a=(x 'y z'); a+=(w); echo \"${#a[@]} ${a[1]} ${a[@]: -1}\"", "3 y z w"),
    ("lookups", "declare -A m=([k]=v [n]=5); for k in n k; do printf '%s=%s;' $k ${m[$k]}; done", "n=5;k=v;"),
    ("arithmetic", "echo $((7 / 2)) $((2 ** 10)) $((0xff)) $((5 > 3 ? 1 : 0))", "3 1024 255 1"),
    ("heredocs", "x=1; cat <<T\na $x\nT\ncat <<'N'\n$x\nN", "a 1\n$x"),
    ("substrings", "f=/a/b.tar.gz; echo \"${f##*/} ${f%.*} ${f/a/c} ${f:1:3} ${u:-none}\"", "b.tar.gz /a/b.tar /c/b.tar.gz a/b none"),
    ("loops", "s=0; for ((i = 1; i <= 10; i++)); do ((i % 2)) && continue; ((s += i)); done; while read -r l; do s+=\" $l\"; done < <(printf 'a\\nb\\n'); echo \"$s\"", "30 a b"),
    ("case", "for x in a1 bb 9; do case $x in [0-9]*) echo -n d;; *[0-9]) echo -n e;; *) echo -n w;; esac; done", "ewd"),
    ("pipes", "printf '3\\n1\\n2\\n1\\n' | sort -n | uniq -c | awk '{print $2\":\"$1}' | paste -sd,", "1:2,2:1,3:1"),
    ("sed and tr", "echo 'Hello World' | sed -E 's/(\\w+) (\\w+)/\\2 \\1/' | tr 'a-z' 'A-Z'", "WORLD HELLO"),
    ("grep and cut", "printf 'a:1\\nb:2\\n' | grep '^b' | cut -d: -f2-", 2),
    ("find and xargs", "mkdir -p f/x && touch f/a.txt f/x/b.txt && find f -name '*.txt' | sort | xargs -n1 basename | tr '\\n' ' '", "a.txt b.txt "),
    ("exit statuses", "(exit 3); a=$?; false || b=or; true && c=and; ! false; echo $a $b $c $?", "3 or and 0"),
    ("traps and subshells", "x=$( (trap 'echo bye' EXIT; echo hi) ); echo \"${x//$'\\n'/,}\"", "hi,bye"),
    ("functions with locals", "g() { local v=$1; echo $((v * 2)); }; v=1; echo \"$(g 4) $v\"", "8 1"),
    ("recursion", "fact() { (($1 < 2)) && echo 1 || echo $(($1 * $(fact $(($1 - 1))))); }; fact 6", 720),
    ("printf and dates", "printf '%05.2f|%-3s|%x ' 3.14159 a 255; date -u -d @0 +%F", "03.14|a  |ff 1970-01-01"),
    ("base64 and hashes", "printf hi | base64; printf a | sha256sum | cut -c1-8", "aGk=\nca978112"),
    ("unicode", "s='é😀'; echo \"${#s} ${s:1} ${s^^}\"", "2 😀 É😀"),
]
C_CODE = """
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
int cmp(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
void sorted(int *a, int n) { qsort(a, n, sizeof *a, cmp); }
double mean(const double *v, size_t count) { double s = 0; for (size_t i = 0; i < count; i++) s += v[i]; return count ? s / count : NAN; }
char *reversed(const char *s) { size_t n = strlen(s); char *r = calloc(1, n + 1); for (size_t i = 0; i < n; i++) r[i] = s[n - 1 - i]; return r; }
int words(const char *s) { int n = 0, in = 0; for (; *s; s++) { if (isspace((unsigned char)*s)) in = 0; else if (!in) in = 1, n++; } return n; }
uint64_t hash(const char *s) { uint64_t h = 14695981039346656037u; while (*s) h = (h ^ (unsigned char)*s++) * 1099511628211u; return h; }
bool is_prime(unsigned n) { if (n < 2) return false; for (unsigned i = 2; i * i <= n; i++) if (n % i == 0) return false; return true; }
unsigned gcd(unsigned a, unsigned b) { return b ? gcd(b, a % b) : a; }
struct point { double x, y; };
struct line { struct point from, to; const char *name; };
double length(struct line l) { return hypot(l.to.x - l.from.x, l.to.y - l.from.y); }
struct point middle(const struct line *l) { return (struct point){(l->from.x + l->to.x) / 2, (l->from.y + l->to.y) / 2}; }
enum weekday { MONDAY = 1, TUESDAY };
enum weekday next_day(enum weekday d) { return d == MONDAY ? TUESDAY : MONDAY; }
int parse(const char *s, long *value) { char *end; errno = 0; *value = strtol(s, &end, 0); return errno == 0 && !*end; }
int bits(uint32_t x) { return __builtin_popcount(x); }
int file_size(void) { FILE *f = fopen("x", "w+"); int n = fprintf(f, "%s %d\\n", "line", 5); fclose(f); return n; }
int apply(int n) { int (*f[])(int) = {abs, toupper}; return f[n > 0](n); }
int matrix(int m[2][2]) { return m[0][0] * m[1][1] - m[0][1] * m[1][0]; }
float halved(float x) { return x / 2; }
int is_null(const char *s) { return s == NULL; }
"""
C = [
    ("sorted", [[3, 1, 2]], [1, 2, 3]), ("mean", [[1, 2, 4.5]], 2.5), ("reversed", ["abc"], "cba"), ("words", [" a  bc d "], 3), ("hash", ["a"], 12638187200555641996),
    ("is_prime", [97], True), ("gcd", [12, 18], 6), ("length", [{"from": {"x": 0, "y": 0}, "to": {"x": 3, "y": 4}, "name": "l"}], 5),
    ("middle", [{"from": {"x": 0, "y": 0}, "to": {"x": 2, "y": 4}, "name": None}], {"x": 1, "y": 2}), ("next_day", ["MONDAY"], "TUESDAY"),
    ("parse", ["0x10"], {"result": 1, "value": 16}), ("bits", [255], 8), ("file_size", [], 7), ("apply", [-5], 5), ("matrix", [[[1, 2], [3, 4]]], -2),
    ("halved", [1.5], 0.75), ("is_null", [None], 1),
]
CPP_CODE = """
#include <algorithm>
#include <chrono>
#include <complex>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <sstream>
#include <stack>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
using namespace std;
map<int, int> counts(const vector<int> &v) { map<int, int> n; for (int x : v) n[x]++; return n; }
vector<string> split(const string &s, char sep) { vector<string> r; stringstream in(s); for (string part; getline(in, part, sep);) r.push_back(part); return r; }
int sum_of_squares(int n) { vector<int> v(n); iota(v.begin(), v.end(), 1); return accumulate(v.begin(), v.end(), 0, [](int s, int x) { return s + (x % 2 ? x * x : 0); }); }
string formatted(double x) { ostringstream out; out << fixed << setprecision(2) << setw(8) << setfill('0') << x; return out.str(); }
struct Shape { virtual ~Shape() = default; virtual double area() const = 0; };
struct Circle : Shape { double r; explicit Circle(double r) : r(r) {} double area() const override { return 3 * r * r; } };
double area(double r) { unique_ptr<Shape> s = make_unique<Circle>(r); return s->area(); }
template <typename T> T largest(const vector<T> &v) { return *max_element(v.begin(), v.end()); }
double largest_of(vector<double> v) { return largest(v); }
auto adder(int n) { return [n](int x) { return x + n; }; }
int added(int a, int b) { return adder(a)(b); }
variant<int, string> parsed(const string &s) { try { return stoi(s); } catch (const invalid_argument &) { return s; } }
struct Item { string name; int count; optional<double> price; };
vector<Item> cheap(vector<Item> v) { erase_if(v, [](const Item &i) { return i.price.value_or(0) > 10; }); return v; }
vector<pair<string, int>> top(const vector<string> &w) { unordered_map<string, int> n; for (auto &x : w) n[x]++; vector<pair<string, int>> r(n.begin(), n.end()); sort(r.begin(), r.end(), [](auto &a, auto &b) { return tie(b.second, a.first) < tie(a.second, b.first); }); return r; }
vector<int> shortest(const vector<vector<int>> &edges, int n) { vector<vector<int>> to(n); for (auto &e : edges) to[e[0]].push_back(e[1]); vector<int> d(n, -1); queue<int> q; d[0] = 0; for (q.push(0); !q.empty(); q.pop()) for (int x : to[q.front()]) if (d[x] < 0) { d[x] = d[q.front()] + 1; q.push(x); } return d; }
string file_there_and_back(const string &text) { ofstream("y.txt") << text; ifstream in("y.txt"); return string(istreambuf_iterator<char>(in), {}); }
complex<double> rotated(complex<double> z) { return z * complex<double>(0, 1); }
chrono::milliseconds total(vector<chrono::milliseconds> v) { return accumulate(v.begin(), v.end(), chrono::milliseconds(0)); }
filesystem::path renamed(const filesystem::path &p) { return filesystem::path(p).replace_extension(".bak"); }
stack<char> open_brackets(const string &s) { stack<char> r; for (char c : s) if (c == '(') r.push(c); else if (c == ')') r.pop(); return r; }
multimap<int, string> by_length(const vector<string> &v) { multimap<int, string> r; for (auto &s : v) r.emplace(s.size(), s); return r; }
constexpr long factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
long fact(int n) { return factorial(n); }
chrono::system_clock::time_point epoch() { return chrono::system_clock::time_point(chrono::hours(24)); }
"""
CPP = [
    ("counts({1, 2, 1})", {"$": "map", "v": [[1, 2], [2, 1]]}), ("split(\"a,b,,c\", ',')", ["a", "b", "", "c"]), ("sum_of_squares(5)", 35), ("formatted(3.14159)", "00003.14"),
    ("area(2)", 12), ("largest_of({1, 3, 2})", 3), ("added(2, 3)", 5), ("parsed(\"12\")", 12), ("parsed(\"x\")", "x"),
    ("cheap({{\"a\", 1, 5}, {\"b\", 2, 50}, {\"c\", 3, nullopt}})", [{"name": "a", "count": 1, "price": 5}, {"name": "c", "count": 3, "price": None}]),
    ("top({\"b\", \"a\", \"b\"})", [["b", 2], ["a", 1]]), ("shortest({{0, 1}, {1, 2}}, 4)", [0, 1, 2, -1]), ("file_there_and_back(\"é\\n\")", "é\n"),
    ("rotated({1, 0})", {"real": 0, "imag": 1}), ("total({1500ms, 500ms})", 2), ("renamed(\"/a/b.txt\")", "/a/b.bak"), ("open_brackets(\"(()(\")", ["(", "("]),
    ("by_length({\"bb\", \"a\", \"c\"})", [[1, "a"], [1, "c"], [2, "bb"]]), ("fact(10)", 3628800), ("epoch()", {"$": "date", "v": "1970-01-02T00:00:00Z"}),
]
# Errors of each kind, and refusals: language, code, type, words of the message.
ERRORS = [
    ("python", "def f(): return {}['k']", "KeyError", "k"), ("python", "def f(): return int('x')", "ValueError", "invalid literal"), ("python", "def f(): return undefined", "NameError", "undefined"),
    ("python", "def f(): import nosuch", "ModuleNotFoundError", "nosuch"), ("python", "class Mine(Exception): pass\ndef f(): raise Mine('m')", "Mine", "m"), ("python", "def f(): return f()", "RecursionError", "recursion"),
    ("python", "def f(): open('/etc/x', 'w')", "OSError|PermissionError", "/etc/x"), ("python", "def f(): return {'rows': [1, f]}", "TypeError", r"\$\.rows\[1\]: function cannot be sent: return its data"),
    ("python", "def f(): return open('/dev/null')", "TypeError", "TextIOWrapper cannot be sent: return its data"),
    ("javascript", "function f() { return null.x }", "TypeError", "null"), ("javascript", "function f() { return y }", "ReferenceError", "y is not defined"), ("javascript", "async function f() { await Promise.reject(new RangeError('r')) }", "RangeError", "r"),
    ("javascript", "function f() { return f() }", "RangeError", "call stack"), ("javascript", "function f() { return [() => 1] }", "TypeError", r"\$\[0\]: function cannot be sent: call it"), ("javascript", "function f( {", "SyntaxError", ""),
    ("typescript", "const f = (x: number): number => { throw new TypeError(`t${x}`) }", "TypeError", "t"), ("ruby", "def f = nil.foo", "NoMethodError", "foo"), ("ruby", "def f = 1 / 0", "ZeroDivisionError", "divided by 0"),
    ("ruby", "def f = {io: $stdout}", "TypeError", r"\$\.io: IO cannot be sent: return its data"), ("php", "function f() { return intdiv(1, 0); }", "DivisionByZeroError", "Division by zero"), ("php", "function f() { return undefined_one(); }", "Error", "undefined_one"),
    ("php", "function f() { return ['c' => fn () => 1]; }", "TypeError", r"\$\.c: Closure cannot be sent: return its data"), ("bash", "f() { nosuch; }", "ExitStatus", "f returned 127"), ("c", "int f(void) { return x; }", "CompileError", "x"),
    ("cpp", "#include <vector>\nint f() { std::vector<int> v; return v.at(5); }", "std::out_of_range", "5"), ("cpp", "#include <any>\nstd::any f() { return 5; }", "TypeError", "std::any"),
]
TIMEOUT = 120


def batch(language, rows, program):
    """One call for all rows; if it fails, or a value differs, each row runs alone to find which."""
    result = call(language, program([body for _, body, _ in rows]), "main")
    if result.status == "success" and result.value == [expected for _, _, expected in rows]:
        return
    wrong = []
    for what, body, expected in rows:
        result = call(language, program([body]), "main")
        if result.status != "success" or result.value != [expected]:
            wrong.append(f"{language}, {what}: {result.value!r} is not {[expected]!r} {result.error}")
    assert not wrong, "\n".join(wrong)
    raise AssertionError(f"{language}: right one by one, and not together: {result}")


def python_program(head=""):
    def program(bodies):
        parts = [f"def _{i}():\n{textwrap.indent(body, '    ')}" for i, body in enumerate(bodies)]
        return "\n".join([head, *parts, f"def main(): return [{', '.join(f'_{i}()' for i in range(len(bodies)))}]"])
    return program


def javascript_program(bodies):
    return f"async function main () {{ return [{', '.join(f'await (async () => {{ {body} }})()' for body in bodies)}] }}"


def ruby_program(bodies):
    parts = [f"def _case_{i}\n{body}\nend" for i, body in enumerate(bodies)]
    return "\n".join([*parts, f"def main = [{', '.join(f'_case_{i}' for i in range(len(bodies)))}]"])


def php_program(bodies):
    parts = [f"function _{i}() {{ {body} }}" for i, body in enumerate(bodies)]
    return "\n".join([*parts, f"function main() {{ return [{', '.join(f'_{i}()' for i in range(len(bodies)))}]; }}"])


def test_python():
    batch("python", PYTHON, python_program())


def test_data_frames():
    if call("python", "import numpy, pandas").status != "success":
        skip("the image has no pandas")
    batch("python", FRAMES, python_program("import numpy as np\nimport pandas as pd"))


def test_javascript():
    batch("javascript", JAVASCRIPT, javascript_program)


def test_typescript():
    batch("typescript", [*JAVASCRIPT, *TYPESCRIPT], javascript_program)


def test_ruby():
    batch("ruby", RUBY, ruby_program)


def test_php():
    batch("php", PHP, php_program)


def test_bash():
    code = "\n".join(f"f{i}() {{\n{body}\n}}" for i, (_, body, _) in enumerate(BASH))
    for i, (what, _, expected) in enumerate(BASH):
        equal(value_of("bash", code, f"f{i}"), expected, what)


def test_c():
    keep_builds()
    for function, args, expected in C:
        equal(value_of("c", C_CODE, function, args=args), expected, function)


def test_cpp():
    """One program, for compiling takes seconds: a tuple of all."""
    keep_builds()
    code = f"{CPP_CODE}auto everything() {{ return make_tuple({', '.join(expression for expression, _ in CPP)}); }}"
    values = value_of("cpp", code, "everything", build='{"flags": ["-O0"]}', timeout=110)  # a third less to compile
    for (expression, expected), value in zip(CPP, values, strict=True):
        equal(value, expected, expression)


def test_errors():
    keep_builds()
    import re
    for language, code, kind, words in ERRORS:
        result = call(language, code)
        equal(result.status, "error", (language, code, result))
        assert re.fullmatch(kind, result.error["type"]) or not kind, (language, code, result.error)
        assert re.search(words, result.error["message"]), (language, code, result.error)


def test_there_are_many():
    import importlib.util
    import os
    spec = importlib.util.spec_from_file_location("everyday", os.path.join(os.path.dirname(__file__), "everyday.py"))
    one_by_one = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(one_by_one)
    tables = [PYTHON, FRAMES, JAVASCRIPT, TYPESCRIPT, RUBY, PHP, BASH, C, CPP, ERRORS, *(getattr(one_by_one, name) for name in (
        "PYTHON", "JAVASCRIPT", "TYPESCRIPT", "RUBY", "PHP", "BASH", "C", "CPP", "PERL"))]
    assert sum(map(len, tables)) >= 300, sum(map(len, tables))
