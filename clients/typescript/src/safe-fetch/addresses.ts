import { isIP } from 'node:net'

/** A network: its first address (4 or 16 bytes) and the length of its prefix. */
export interface Network {
  readonly first: Uint8Array
  readonly bits: number
}

type Row = readonly [cidr: string, what: string]

/** Services that hand out the machine's credentials. No option opens these. */
export const METADATA: readonly Row[] = [
  ['169.254.169.254/32', 'cloud metadata'],
  ['169.254.170.2/32', 'container credentials'],
  ['169.254.170.23/32', 'container credentials'],
  ['169.254.42.42/32', 'cloud metadata'],
  ['100.100.100.200/32', 'cloud metadata'],
  ['168.63.129.16/32', 'cloud host agent'],
  ['192.0.0.192/32', 'cloud metadata'],
  ['fd00:ec2::254/128', 'cloud metadata'],
  ['fd00:ec2::23/128', 'container credentials'],
  ['fd00:42::42/128', 'cloud metadata'],
  ['fd20:ce::254/128', 'cloud metadata']
]

/**
 * Networks outside the public internet: the IANA special-purpose registries of IPv4 and IPv6
 * (whether globally reachable or not: none of it is a web server's), multicast, withdrawn ones that
 * are still in tables, and all of IPv6 outside 2000::/3. The first row that matches names the
 * network.
 */
export const SPECIAL: readonly Row[] = [
  ['0.0.0.0/8', 'this network'],
  ['10.0.0.0/8', 'private use'],
  ['100.64.0.0/10', 'shared address space'],
  ['127.0.0.0/8', 'loopback'],
  ['169.254.0.0/16', 'link local'],
  ['172.16.0.0/12', 'private use'],
  ['192.0.0.0/24', 'IETF protocol assignments'],
  ['192.0.2.0/24', 'documentation'],
  ['192.31.196.0/24', 'AS112'],
  ['192.52.193.0/24', 'AMT'],
  ['192.88.99.0/24', '6to4 relay'],
  ['192.168.0.0/16', 'private use'],
  ['192.175.48.0/24', 'AS112'],
  ['198.18.0.0/15', 'benchmarking'],
  ['198.51.100.0/24', 'documentation'],
  ['203.0.113.0/24', 'documentation'],
  ['224.0.0.0/4', 'multicast'],
  ['255.255.255.255/32', 'broadcast'],
  ['240.0.0.0/4', 'reserved'],
  ['::/128', 'unspecified'],
  ['::1/128', 'loopback'],
  ['::ffff:0:0/96', 'IPv4 mapped'],
  ['::ffff:0:0:0/96', 'IPv4 translated'],
  ['::/96', 'IPv4 compatible'],
  ['64:ff9b::/96', 'NAT64'],
  ['64:ff9b:1::/48', 'local NAT64'],
  ['100::/64', 'discard'],
  ['100:0:0:1::/64', 'dummy'],
  ['2001::/32', 'Teredo'],
  ['2001:2::/48', 'benchmarking'],
  ['2001:3::/32', 'AMT'],
  ['2001:4:112::/48', 'AS112'],
  ['2001:10::/28', 'ORCHID'],
  ['2001:20::/28', 'ORCHIDv2'],
  ['2001:30::/28', 'drone identifiers'],
  ['2001::/23', 'IETF protocol assignments'],
  ['2001:db8::/32', 'documentation'],
  ['2002::/16', '6to4'],
  ['2620:4f:8000::/48', 'AS112'],
  ['3ffe::/16', '6bone'],
  ['3fff::/20', 'documentation'],
  ['5f00::/16', 'segment routing'],
  ['fc00::/7', 'unique local'],
  ['fe80::/10', 'link local'],
  ['fec0::/10', 'site local'],
  ['ff00::/8', 'multicast'],
  ['::/3', 'not global unicast'],
  ['4000::/2', 'not global unicast'],
  ['8000::/1', 'not global unicast']
]

/** Positions of the IPv4 address within addresses of these networks, whose packets go to it in the end. */
const TRANSLATED: ReadonlyArray<readonly [cidr: string, at: number]> = [
  ['::ffff:0:0/96', 12],
  ['::ffff:0:0:0/96', 12],
  ['64:ff9b::/96', 12],
  ['64:ff9b:1::/48', 12],
  ['2002::/16', 2]
]

const groups = (text: string): number[] => text === '' ? [] : text.split(':').map((group) => parseInt(group, 16))

// For a text that isIP() accepts. A dotted end becomes two groups first.
function bytesOfIPv6 (text: string): Uint8Array {
  const plain = text.replace(/[^:]+\.[^:]+$/, (dotted) => {
    const [a = 0, b = 0, c = 0, d = 0] = dotted.split('.').map(Number)
    return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
  })
  const [head = '', tail] = plain.split('::')
  const before = groups(head)
  const after = tail === undefined ? [] : groups(tail)
  const all = [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after]
  return Uint8Array.from(all.flatMap((group) => [group >> 8, group & 255]))
}

/** 4 or 16 bytes; undefined if it is no address, or has a zone. */
export function parseAddress (text: string): Uint8Array | undefined {
  switch (isIP(text)) {
    case 4: return Uint8Array.from(text.split('.'), Number)
    case 6: return text.includes('%') ? undefined : bytesOfIPv6(text)
    default: return undefined
  }
}

function isWithin (address: Uint8Array, { first, bits }: Network): boolean {
  if (address.length !== first.length) return false
  const whole = bits >> 3
  for (let i = 0; i < whole; i++) if (address[i] !== first[i]) return false
  const mask = 0xff00 >> (bits & 7) & 0xff
  return mask === 0 || ((address[whole] ?? 0) & mask) === ((first[whole] ?? 0) & mask)
}

/** Reads `10.0.0.0/8`, or one address. Throws the reason if it is invalid. */
export function parseNetwork (text: string): Network {
  const [address = '', length, ...rest] = text.split('/')
  const first = parseAddress(address)
  if (first === undefined || rest.length > 0) {
    throw new TypeError(`${JSON.stringify(text)} is no network, such as "10.0.0.0/8" or "fd00::/8"`)
  }
  const most = first.length * 8
  const bits = length === undefined ? most : /^\d{1,3}$/.test(length) ? Number(length) : most + 1
  if (bits > most) throw new TypeError(`${JSON.stringify(text)}: the prefix is a number from 0 to ${most}`)
  const zeros = first.map((byte, i) => byte & (0xff00 >> Math.min(8, Math.max(0, bits - i * 8)) & 0xff))
  if (!isWithin(first, { first: zeros, bits: most })) throw new TypeError(`${JSON.stringify(text)}: bits are set behind the prefix`)
  return { first, bits }
}

interface Entry<T> { network: Network, cidr: string, value: T }
const compile = <T>(rows: ReadonlyArray<readonly [string, T]>): Array<Entry<T>> =>
  rows.map(([cidr, value]) => ({ network: parseNetwork(cidr), cidr, value }))

const metadata = compile(METADATA)
const special = compile(SPECIAL)
const translated = compile(TRANSLATED)
const find = <T>(rows: Array<Entry<T>>, address: Uint8Array): Entry<T> | undefined =>
  rows.find(({ network }) => isWithin(address, network))

function whyBytes (address: Uint8Array, allowed: readonly Network[]): string | undefined {
  const never = find(metadata, address)
  if (never !== undefined) return `${never.cidr}, ${never.value}`
  const row = find(special, address)
  if (row === undefined) return undefined
  if (!allowed.some((network) => isWithin(address, network))) return `${row.cidr}, ${row.value}`
  // A permitted translator must not open the networks behind it.
  const inner = find(translated, address)
  return inner && whyBytes(address.subarray(inner.value, inner.value + 4), allowed)
}

/** The reason why this address must not be connected to; undefined if it may. An invalid address must not. */
export function whyBlocked (address: string, allowed: readonly Network[] = []): string | undefined {
  const bytes = parseAddress(address)
  return bytes === undefined ? 'not an address' : whyBytes(bytes, allowed)
}
