import assert from 'node:assert/strict'
import { BlockList, isIP } from 'node:net'
import { describe, it } from 'node:test'
import { METADATA, SPECIAL, parseAddress, parseNetwork, whyBlocked } from '../../dist/safe-fetch/addresses.js'

// An independent oracle: numbers instead of bytes, and the URL parser for the text of IPv6.
const number = (bytes) => bytes.reduce((all, byte) => all << 8n | BigInt(byte), 0n)

function textOf (value, size) {
  if (size === 4) return [24n, 16n, 8n, 0n].map((shift) => value >> shift & 255n).join('.')
  return Array.from({ length: 8 }, (_, i) => (value >> BigInt(112 - 16 * i) & 0xffffn).toString(16)).join(':')
}

function rangeOf (cidr) {
  const [address, length] = cidr.split('/')
  const size = address.includes(':') ? 16 : 4
  const bytes = size === 4
    ? address.split('.').map(Number)
    : new URL(`http://[${address}]/`).hostname.slice(1, -1).split('::').map((half) => half === '' ? [] : half.split(':'))
      .reduce((before, after, i) => i === 0 ? after : [...before, ...Array(8 - before.length - after.length).fill('0'), ...after], [])
      .flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255])
  const first = number(bytes)
  return { cidr, size, first, last: first + (1n << BigInt(size * 8 - Number(length))) - 1n }
}

const ranges = [...METADATA, ...SPECIAL].map(([cidr]) => rangeOf(cidr))
const isSpecial = (value, size) => ranges.some((range) => range.size === size && range.first <= value && value <= range.last)

// Listed a second time, so that a row lost from the table is noticed.
const MUST = [
  '0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24', '192.0.2.0/24', '192.31.196.0/24',
  '192.52.193.0/24', '192.88.99.0/24', '192.168.0.0/16', '192.175.48.0/24', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/4',
  '240.0.0.0/4', '255.255.255.255/32', '168.63.129.16/32', '100.100.100.200/32', '::/128', '::1/128', '::/96', '::ffff:0:0/96', '::ffff:0:0:0/96',
  '64:ff9b::/96', '64:ff9b:1::/48', '100::/64', '2001::/23', '2001::/32', '2001:2::/48', '2001:10::/28', '2001:20::/28', '2001:db8::/32', '2002::/16',
  '2620:4f:8000::/48', '3ffe::/16', '3fff::/20', '5f00::/16', 'fc00::/7', 'fe80::/10', 'fec0::/10', 'ff00::/8', '0::/8', '200::/7', '4000::/3', 'e000::/4'
]

describe('addresses', () => {
  for (const { cidr, size, first, last } of [...ranges, ...MUST.map(rangeOf)]) {
    it(`blocks ${cidr} from its first to its last address`, () => {
      for (const value of [first, last, (first + last) / 2n]) {
        assert.notEqual(whyBlocked(textOf(value, size)), undefined, textOf(value, size))
      }
    })

    it(`ends ${cidr} where it ends`, () => {
      const limit = (1n << BigInt(size * 8)) - 1n
      for (const value of [first - 1n, last + 1n].filter((value) => value >= 0n && value <= limit)) {
        assert.equal(whyBlocked(textOf(value, size)) !== undefined, isSpecial(value, size), textOf(value, size))
      }
    })
  }

  it('lets public addresses through', () => {
    for (const address of ['1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.0', '93.184.216.34', '172.15.255.255', '172.32.0.0', '223.255.255.255', '100.63.255.255',
      '100.128.0.0', '2606:4700:4700::1111', '2a00:1450::1', '2001:200::1', '2001:4860:4860::8888', '2003::1', '2620:fe::fe', '3ffd::1', '2400::']) {
      assert.equal(whyBlocked(address), undefined, address)
    }
  })

  it('agrees with node:net about a hundred thousand addresses', () => {
    // One list each: BlockList treats an IPv4 address as a member of the IPv6 networks that contain its mapped form.
    const lists = { ipv4: new BlockList(), ipv6: new BlockList() }
    for (const [cidr] of [...METADATA, ...SPECIAL]) {
      const [address, length] = cidr.split('/')
      const family = `ipv${isIP(address)}`
      lists[family].addSubnet(address, Number(length), family)
    }
    let seed = 20n
    const random = (bits) => {
      let value = 0n
      for (let i = 0; i < bits; i += 32) {
        seed = (seed * 6364136223846793005n + 1442695040888963407n) & (1n << 64n) - 1n
        value = value << 32n | seed >> 32n
      }
      return value
    }
    for (let i = 0; i < 50_000; i++) {
      const four = textOf(random(32), 4)
      assert.equal(whyBlocked(four) !== undefined, lists.ipv4.check(four, 'ipv4'), four)
      const six = textOf(random(128) >> 3n | 1n << 125n, 16)
      assert.equal(whyBlocked(six) !== undefined, lists.ipv6.check(six, 'ipv6'), six)
    }
  })

  it('names the network and what it is', () => {
    assert.equal(whyBlocked('10.1.2.3'), '10.0.0.0/8, private use')
    assert.equal(whyBlocked('::ffff:7f00:1'), '::ffff:0:0/96, IPv4 mapped')
    assert.equal(whyBlocked('169.254.169.254'), '169.254.169.254/32, cloud metadata')
  })

  it('blocks what is no address, or has a zone', () => {
    for (const text of ['', 'localhost', '127.1', '0x7f.0.0.1', '010.0.0.1', '1.2.3', '1.2.3.4.5', '256.0.0.1', '1.2.3.4 ', '2606:4700::1%eth0', 'fe80::1%1', '1::2::3', 'undefined']) {
      assert.equal(whyBlocked(text), 'not an address', text)
    }
  })

  it('reads every form of IPv6', () => {
    const forms = { '::': 0n, '::1': 1n, '1::': 1n << 112n, '::ffff:1.2.3.4': 0xffff01020304n, '64:ff9b::192.0.2.33': 0x0064ff9bn << 96n | 0xc0000221n, '1:2:3:4:5:6:7:8': 0x00010002000300040005000600070008n, 'ABCD::EF': 0xabcdn << 112n | 0xefn, '1:2:3:4:5:6:1.2.3.4': 0x00010002000300040005000601020304n }
    for (const [text, value] of Object.entries(forms)) assert.equal(number(parseAddress(text)), value, text)
  })
})

describe('allowPrivate', () => {
  const open = (...cidrs) => cidrs.map(parseNetwork)

  it('opens the networks named, and no others', () => {
    assert.equal(whyBlocked('10.1.2.3', open('10.1.0.0/16')), undefined)
    assert.equal(whyBlocked('10.2.0.0', open('10.1.0.0/16')), '10.0.0.0/8, private use')
    assert.equal(whyBlocked('::1', open('::1')), undefined)
    assert.equal(whyBlocked('fd00::1', open('fd00::/8')), undefined)
    assert.notEqual(whyBlocked('::ffff:10.1.2.3', open('10.1.0.0/16')), undefined)
  })

  it('never opens metadata services', () => {
    const everything = open('0.0.0.0/0', '::/0')
    for (const [cidr] of METADATA) assert.notEqual(whyBlocked(cidr.split('/')[0], everything), undefined, cidr)
    assert.equal(whyBlocked('169.254.1.1', everything), undefined)
  })

  it('does not open with a translator what lies behind it', () => {
    const translators = open('64:ff9b::/96', '64:ff9b:1::/48', '::ffff:0:0/96', '2002::/16')
    for (const address of ['64:ff9b::10.0.0.1', '64:ff9b:1::127.0.0.1', '::ffff:192.168.0.1', '2002:a00:1::', '64:ff9b::169.254.169.254']) {
      assert.notEqual(whyBlocked(address, translators), undefined, address)
    }
    for (const address of ['64:ff9b::8.8.8.8', '::ffff:8.8.8.8', '2002:808:808::']) {
      assert.equal(whyBlocked(address, translators), undefined, address)
    }
    assert.notEqual(whyBlocked('64:ff9b::169.254.169.254', open('64:ff9b::/96', '169.254.0.0/16')), undefined)
  })

  it('refuses networks that are none, by what is wrong', () => {
    for (const [text, message] of [['10.0.0.0/33', /from 0 to 32/], ['::/129', /from 0 to 128/], ['10.0.0.1/8', /bits are set/], ['fd00::1/8', /bits are set/],
      ['10.0.0.0/8/8', /no network/], ['10/8', /no network/], ['intranet', /no network/], ['10.0.0.0/', /from 0 to 32/], ['10.0.0.0/-1', /from 0 to 32/], ['fe80::1%eth0', /no network/]]) {
      assert.throws(() => parseNetwork(text), { name: 'TypeError', message }, text)
    }
  })
})
