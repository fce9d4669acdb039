/** Matches the path of a URL as it is sent; returns its parameters, or undefined. */
export type PathMatcher = (path: string) => Record<string, string> | undefined

type Segment = (text: string, params: Map<string, string>) => boolean

const NAME = /^:([A-Za-z_]\w*)(?:\((.+)\))?$/
const REST = /^\*\*(?::([A-Za-z_]\w*))?$/

function constrained (name: string, pattern: string | undefined, where: string): Segment {
  let expression = /./s
  try {
    if (pattern !== undefined) expression = new RegExp(`^(?:${pattern})$`, 'u')
  } catch (cause) {
    throw new TypeError(`${where}: (${pattern}) is no regular expression`, { cause })
  }
  return (text, params) => {
    if (text === '' || !expression.test(text)) return false
    params.set(name, text)
    return true
  }
}

function compileSegment (pattern: string, where: string): Segment {
  if (pattern === '*') return (text) => text !== ''
  const param = NAME.exec(pattern)
  if (param !== null) return constrained(param[1] ?? '', param[2], where)
  if (/[*:()]/.test(pattern)) {
    throw new TypeError(`${where}: ${JSON.stringify(pattern)} is neither text nor :name, :name(expression), *, or ** at the end`)
  }
  // Text that no sent URL contains would never match: a space, "..", a query.
  const sent = new URL(`http://host/${pattern}`).pathname.slice(1)
  if (sent !== pattern) throw new TypeError(`${where}: ${JSON.stringify(pattern)} is never sent so, but as ${JSON.stringify(sent)}`)
  return (text) => text === pattern
}

/** Throws TypeError for an invalid pattern. */
export function compilePath (pattern: unknown, where: string): PathMatcher {
  if (typeof pattern !== 'string' || !pattern.startsWith('/')) throw new TypeError(`${where} must be a string that starts with "/"`)
  const patterns = pattern.slice(1).split('/')
  const rest = REST.exec(patterns.at(-1) ?? '')
  const segments = (rest === null ? patterns : patterns.slice(0, -1)).map((segment) => compileSegment(segment, where))

  return (path) => {
    const parts = path.slice(1).split('/')
    if (rest === null ? parts.length !== segments.length : parts.length < segments.length) return undefined
    const params = new Map<string, string>()
    if (!segments.every((matches, i) => matches(parts[i] ?? '', params))) return undefined
    if (rest?.[1] !== undefined) params.set(rest[1], parts.slice(segments.length).join('/'))
    return Object.fromEntries(params)
  }
}
