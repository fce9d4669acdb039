# frozen_string_literal: true

module ClocheAgent
  # Values that have no kind of their own on the wire, but an obvious form (the table is in
  # spec/values.md). Loaded on first use. The user's code yields the elements of an Enumerable;
  # ITEMS_MAX and resultBytes bound their number.
  module Evident
    extend Own

    WAY_OUT = "return its data, or give its class a method to_h"
    TEXTS = %i[BigDecimal Rational Pathname IPAddr].freeze
    IVARS, IVAR = Kernel.instance_method(:instance_variables), Kernel.instance_method(:instance_variable_get)
    # Classes with more state than their instance variables.
    CLOSED = [IO, Dir, Thread, ThreadGroup, Proc, Method, UnboundMethod, Module, Binding, MatchData, Thread::Mutex, Thread::Queue,
              Random, Encoding, Fiber, ObjectSpace::WeakMap].freeze

    class << self
      # False if the value is none of these.
      def encode(encoder, value, depth)
        if text?(value) then encoder.text(value.instance_of?(Rational) ? value.to_s : text_of(value))
        elsif Complex === value then encoder.pairs(value, [["real", value.real], ["imag", value.imaginary]], depth)
        elsif Range === value && !counts?(value) then encoder.text(value.to_s)
        elsif Exception === value then encoder.pairs(value, error_pairs(value), depth)
        else return false
        end
        true
      end

      # Comes after the value's own to_h, if any.
      def encode_object(encoder, value, depth)
        return encoder.collect(value, depth) if Enumerable === value && CLOSED.none? { |kind| kind === value }
        pairs = CLOSED.any? { |kind| kind === value } ? [] : variables(value)
        raise Refused, "#{Agent.class_name(value)} cannot be sent: #{WAY_OUT}" if pairs.empty?
        encoder.pairs(value, pairs, depth)
      end

      private

      def text?(value)
        TEXTS.any? { |name| (kind = Rare.defined_class(name)) && kind === value } || uri?(value)
      end

      def uri?(value)
        uri = Rare.defined_class(:URI)
        !uri.nil? && uri.const_defined?(:Generic, false) && uri.const_get(:Generic, false) === value
      end

      def text_of(value)
        decimal = Rare.defined_class(:BigDecimal)
        decimal && decimal === value ? value.to_s("F") : value.to_s
      end

      def counts?(range)
        Integer === range.begin || String === range.begin || range.begin.respond_to?(:succ)
      end

      # Fields of an error from the host are in @fields.
      def error_pairs(error)
        own = variables(error).to_h
        fields = own.delete("fields") || {}
        {"name" => Agent.class_name(error), "message" => String(error.message)}.merge(own, fields).to_a
      end

      def variables(value)
        names = IVARS.bind_call(value).map(&:to_s).reject { |name| name.start_with?("@_") }
        names.map { |name| [name.delete_prefix("@"), IVAR.bind_call(value, name)] }
      rescue TypeError
        [] # a BasicObject
      end
    end
  end
end
