import type { Settings } from './options.js'
import { isIP } from 'node:net'
import { whyBlocked } from './addresses.js'
import { Denial, SafeFetchError } from './errors.js'
import { isMetadataName } from './url.js'

/** An address that was checked and may be connected to. */
export interface Endpoint {
  readonly address: string
  readonly family: 4 | 6
}

type Resolving = Pick<Settings<never>, 'lookup' | 'pinDns' | 'allowPrivate'>

const noAddress = (host: string, why: string, cause?: unknown): SafeFetchError =>
  new SafeFetchError('ERR_FETCH_NETWORK', `fetch: ${JSON.stringify(host)} has no address${why}`, cause)

async function ask (host: string, { lookup }: Resolving, signal: AbortSignal): Promise<string[]> {
  if (isIP(host) !== 0) return [host]
  let found: ReadonlyArray<{ address: string }>
  try {
    found = await lookup(host, signal)
  } catch (cause) {
    throw noAddress(host, ` (${(cause as NodeJS.ErrnoException | undefined)?.code ?? 'lookup failed'})`, cause)
  }
  if (!Array.isArray(found) || found.length === 0) throw noAddress(host, '')
  return found.map((item: unknown) => String((item as { address?: unknown } | null)?.address))
}

/** The permitted addresses of a host, from a single lookup. Throws Denial, or an error that there are none. */
export async function resolveHost (host: string, settings: Resolving, signal: AbortSignal): Promise<Endpoint[]> {
  if (isMetadataName(host)) throw new Denial(`${JSON.stringify(host)} is a cloud metadata service`)
  const all = (await ask(host, settings, signal)).map((address) => ({ address, why: whyBlocked(address, settings.allowPrivate) }))
  const open = all.filter(({ why }) => why === undefined)
  const blocked = all.find(({ why }) => why !== undefined)
  if (blocked !== undefined && (settings.pinDns || open.length === 0)) {
    // The guest must not learn the addresses of names in the host's network.
    throw new Denial(
      isIP(host) !== 0 ? `${host} is not a public address (${blocked.why})` : `${JSON.stringify(host)} has an address that is not public`,
      `${JSON.stringify(host)} has the address ${blocked.address} (${blocked.why})`)
  }
  return open.map(({ address }) => ({ address, family: isIP(address) === 6 ? 6 : 4 }))
}
