// Displays of a cell in the façade's form: one result with all the forms of a value.
import type { Display } from './answers.js'
import { textOf } from './text.js'

export interface ChartData {
  type: 'line' | 'bar' | 'scatter' | 'pie' | 'histogram' | 'heatmap' | 'superchart' | 'unknown'
  title?: string
  /** The chart's elements, of a superchart a chart for each of its axes; of an unknown type all its data. */
  data: unknown
  /** Labels, ticks, scales. */
  layout?: unknown
}

export interface ResultFields {
  text?: string
  html?: string
  /** Pictures and documents are base64. */
  png?: string
  jpeg?: string
  svg?: string
  latex?: string
  markdown?: string
  javascript?: string
  json?: unknown
  pdf?: string
  chart?: ChartData
  /** Forms without a name here, by their MIME types. */
  data?: Record<string, unknown>
  /** `stored` {mime, path, bytes}: that form is too large and is in this file of the sandbox. */
  metadata?: Record<string, unknown>
}

const FORMATS = ['png', 'jpeg', 'svg', 'html', 'json', 'latex', 'markdown', 'javascript', 'text', 'pdf', 'chart'] as const
const MEMBERS = [...FORMATS, 'data', 'metadata'] as const

// Omits absent members.
function membersOf (from: ResultFields): ResultFields {
  return Object.fromEntries(MEMBERS.map((name) => [name, from[name]]).filter(([, value]) => value !== undefined)) as ResultFields
}

export interface Result extends ResultFields {}
export class Result {
  constructor (fields: ResultFields) {
    Object.assign(this, membersOf(fields))
  }

  /** Its forms, richest first. */
  formats (): string[] {
    return FORMATS.filter((name) => this[name] !== undefined)
  }

  toJSON (): ResultFields {
    return membersOf(this)
  }
}

/** The value as JSON. A repeated container becomes null: a guest's value is not expanded. */
export function plain (value: unknown, seen = new Set<object>()): unknown {
  if (typeof value === 'bigint') return String(value)
  if (value === undefined || value === null || typeof value !== 'object') return value
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString()
  if (seen.has(value)) return null
  seen.add(value)
  if (Array.isArray(value) || value instanceof Set || value instanceof Map) return Array.from(value, (item) => plain(item, seen) ?? null)
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member, seen)]))
}

const bytesOrText = (value: unknown): unknown => value instanceof Uint8Array ? textOf(value) : plain(value)
const object = (value: unknown): Record<string, unknown> =>
  value !== null && typeof value === 'object' && !Array.isArray(value) ? value as Record<string, unknown> : {}
const CHARTS = ['line', 'bar', 'scatter', 'pie', 'histogram', 'heatmap', 'superchart']

// The façade has fewer chart types: other charts are kept whole in `data`.
function chartOf (value: unknown): ChartData {
  const chart = object(plain(value))
  const { type, title, elements, ...layout } = chart
  const titled = typeof title === 'string' ? { title } : {}
  if (typeof type !== 'string' || !CHARTS.includes(type) || elements === undefined) return { type: 'unknown', ...titled, data: chart }
  const data = type === 'superchart' && Array.isArray(elements) ? elements.map(chartOf) : elements
  return { type: type as ChartData['type'], ...titled, data, layout }
}

const forms: Record<string, [member: keyof ResultFields, read: (value: unknown) => unknown]> = {
  'text/plain': ['text', bytesOrText],
  'text/html': ['html', bytesOrText],
  'image/png': ['png', plain],
  'image/jpeg': ['jpeg', plain],
  'image/svg+xml': ['svg', bytesOrText],
  'text/latex': ['latex', bytesOrText],
  'text/markdown': ['markdown', bytesOrText],
  'application/javascript': ['javascript', bytesOrText],
  'application/json': ['json', plain],
  'application/pdf': ['pdf', plain],
  'application/vnd.cloche.chart+json': ['chart', chartOf]
}

export function fieldsOf ({ data, metadata }: Display): ResultFields {
  const fields: Record<string, unknown> = {}
  const others: Array<[string, unknown]> = []
  for (const [mime, value] of Object.entries(data)) {
    const form = Object.hasOwn(forms, mime) ? forms[mime] : undefined
    if (form === undefined) others.push([mime, plain(value)])
    else fields[form[0]] = form[1](value)
  }
  return { ...fields, ...others.length === 0 ? {} : { data: Object.fromEntries(others) }, metadata: object(plain(metadata)) }
}
