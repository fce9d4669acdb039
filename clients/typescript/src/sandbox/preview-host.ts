// Names of previews: `<port>-<sandbox>-<token>.<host>`.

export interface Preview { port: number, sandbox: string, token: string, host: string }

const LOCAL = /^(localhost|.*\.localhost|127(\.\d+){3}|0\.0\.0\.0|\[::1\])(:\d+)?$/i

export const label = ({ port, sandbox, token }: Omit<Preview, 'host'>): string => `${port}-${sandbox}-${token}`

export function previewUrl (port: number, sandbox: string, token: string, hostname: string): string {
  return `${LOCAL.test(hostname) ? 'http' : 'https'}://${label({ port, sandbox, token })}.${hostname}/`
}

/** The text after the first label of a preview's URL, with its port. */
export function suffixOf (url: string): string | undefined {
  const { host } = new URL(url)
  const dot = host.indexOf('.')
  return dot === -1 ? undefined : host.slice(dot + 1)
}

/** Parses a Host header; undefined if it is no preview's. */
export function previewOf (host: string): Preview | undefined {
  const found = /^(\d{4,5})-([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)-([a-z0-9_]{1,16})\.(.+)$/.exec(host.toLowerCase())
  if (found === null) return undefined
  const [, port, sandbox, token, rest] = found as unknown as [string, string, string, string, string]
  return Number(port) >= 1024 && Number(port) <= 65535 ? { port: Number(port), sandbox, token, host: rest } : undefined
}
