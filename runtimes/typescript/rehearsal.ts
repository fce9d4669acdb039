// Translated repeatedly before a template is forked, and never run: it uses most of the language,
// so that the translator is compiled for it.
import { createHash } from 'node:crypto'
import { type Dirent, readFileSync as read } from 'node:fs'
import type { Hash } from 'node:crypto'

export interface Item<T = unknown> { readonly id: string; value: T; tags?: string[]; meta?: Record<string, unknown> }
type Test<T> = (item: T, index: number) => boolean
type Deep<T> = { [K in keyof T]?: T[K] extends object ? Deep<T[K]> : T[K] }
declare const nowhere: Dirent | undefined

export abstract class Store<T extends Item> {
  protected readonly items = new Map<string, T>()
  static #count = 0
  private last?: T | undefined
  abstract key(item: T): string
  add(item: T, ...more: T[]): this {
    for (const one of [item, ...more]) { this.items.set(this.key(one), one); Store.#count += 1; this.last = one }
    return this
  }

  get size(): number { return this.items.size }
  find(test: Test<T>): T | undefined {
    let i = 0
    for (const item of this.items.values()) if (test(item, i++)) return item
    return undefined
  }

  async * stream(): AsyncIterableIterator<T> { for (const x of this.items.values()) { await null; yield x } }
}

class HashStore extends Store<Item<number>> {
  override key(item: Item<number>): string { const hash: Hash = createHash('sha1'); return hash.update(item.id).digest('hex').slice(0, 8) }
}

function pick(a: string): string
function pick(a: number, b?: number): number
function pick(a: any, b = 2) { return typeof a === 'string' ? a : a + b }

const isItem = (x: unknown): x is Item => typeof x === 'object' && x !== null && 'id' in x
export default async function main(values: number[], { scale = 1, label }: { scale?: number; label?: string } = {}): Promise<{ total: number; keys: string[] }> {
  const store = new HashStore()
  values.forEach((value, i) => store.add({ id: `v${i}`, value: value * scale, tags: label ? [label] : undefined } satisfies Item<number>))
  let total = 0
  const keys: string[] = []
  try {
    for await (const item of store.stream()) { total += item!.value; keys.push(store.key(item)) }
    switch (keys.length as 0 | 1 | 2) { case 0: case 1: break; default: total = +(total.toFixed(2)) }
  } catch (e: unknown) {
    if (e instanceof RangeError) throw e
    else console.error((e as Error)?.message ?? e, read)
  } finally { void isItem(nowhere) }
  const options = { ...{ a: 1 as const }, ['k' + total]: /a+b/gi.test('aab') } as unknown as Deep<{ a: number }>
  do { total ||= 0; total ??= pick(1) } while (false)
  return { total: options.a ? total : -1, keys: keys.map((k) => k!) }
}
