import { isIP } from 'node:net'

export const URL_CHARS_MAX = 16384

/** Names under which clouds serve credentials. They are refused before any DNS query. */
const METADATA_NAMES = new Set([
  'metadata', 'metadata.google.internal', 'metadata.goog', 'metadata.azure.internal', 'metadata.azure.com', 'metadata.packet.net',
  'metadata.platformequinix.com', 'metadata.tencentyun.com', 'instance-data', 'instance-data.ec2.internal', 'rancher-metadata'
])

/** Ports of other protocols, whose servers might accept a request; the list of the Fetch standard, and 0. */
const OTHER_PROTOCOLS = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113, 115,
  117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587,
  601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679,
  6697, 10080
])

export const isMetadataName = (host: string): boolean => METADATA_NAMES.has(host)
export const isOtherProtocol = (port: number): boolean => OTHER_PROTOCOLS.has(port)

/** Without the brackets of IPv6. */
export const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, '')
export const portOf = (url: URL): number => url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
export const protocolOf = (url: URL): 'http' | 'https' => url.protocol === 'https:' ? 'https' : 'http'

// "example.com." is the host "example.com" for a name server, and must be for rules, policy and certificates.
function withoutDot (url: URL): void {
  if (url.hostname.endsWith('.')) url.hostname = url.hostname.slice(0, -1)
  const labels = hostOf(url).split('.')
  if (isIP(hostOf(url)) !== 6 && labels.some((label) => label === '' || label.length > 63)) {
    throw new TypeError('the host has an empty or too long label')
  }
}

/**
 * The one form of a URL. The URL parser has made addresses of decimal, octal, hexadecimal and short numbers, ASCII of
 * international names, and has resolved dot segments. Throws the reason if it is invalid.
 */
export function parseUrl (text: string, base?: URL): URL {
  if (text.length > URL_CHARS_MAX) throw new TypeError(`the URL is longer than ${URL_CHARS_MAX} characters`)
  // The parser would silently drop tabs and line ends.
  if (/[\0-\x1f\x7f]/.test(text)) throw new TypeError('the URL has a control character')
  if (!URL.canParse(text, base?.href)) throw new TypeError(`${JSON.stringify(text)} is no absolute URL`)
  const url = new URL(text, base?.href)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new TypeError(`the URL's scheme is ${JSON.stringify(url.protocol.slice(0, -1))}, not http or https`)
  }
  url.username = ''
  url.password = ''
  url.hash = ''
  withoutDot(url)
  return url
}
