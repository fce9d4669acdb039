// The forms of values (wire.cjs), made for this process: its classes, and an error for each thing that can be wrong.
import { types } from 'node:util'
import { ProtocolError, TooLargeError } from '../generated/errors.js'
import makeWire from './wire.cjs'

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type Form = Record<string, unknown>

/** A value that cannot be sent, named by its path. */
class UnsendableError extends TypeError {
  override readonly name = 'TypeError'
}

/** More bytes than the encoder was allowed. */
export class OversizeError extends RangeError {
  override readonly name = 'RangeError'
}

/** A value that is not as spec/values.md has it, named by its path. The daemon lets no such value pass. */
export class MalformedValueError extends TypeError {
  override readonly name = 'TypeError'
}

/** A value in the form of spec/values.md whose class refuses the guest's content: a forged Request, say. */
export class UnmakeableValueError extends MalformedValueError {}

export const wire = makeWire({
  Array, DataView, Date, Map, Object, RegExp, Set, Uint8Array,
  Error, TypeError, RangeError, ReferenceError, SyntaxError, EvalError, URIError, AggregateError,
  types,
  typed: {
    i8: Int8Array, u8: Uint8Array, u8c: Uint8ClampedArray, i16: Int16Array, u16: Uint16Array, i32: Int32Array,
    u32: Uint32Array, i64: BigInt64Array, u64: BigUint64Array, f32: Float32Array, f64: Float64Array
  },
  verb: 'pass',
  errors: {
    Unsendable: UnsendableError, Malformed: MalformedValueError, Unmakeable: UnmakeableValueError,
    Oversize: OversizeError, FrameTooLarge: TooLargeError, BadFrame: ProtocolError
  }
})

export const isText: (text: string) => boolean = wire.isText
export const notFields: readonly string[] = wire.notFields
/** The built-in class of that name, else Error with the name. It has no stack of this process. */
export const makeError = (name: string, message: string, stack?: string): Error =>
  wire.makeError({ name, message, stack }) as Error
/** True for an AggregateError. */
export const holdsErrors: (error: object) => error is { errors: unknown[] } =
  wire.holdsErrors as (error: object) => error is { errors: unknown[] }
export const addFields: (error: Error, fields: object) => Error = wire.addFields
