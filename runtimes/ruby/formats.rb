# frozen_string_literal: true

module ClocheAgent
  # The displayable forms of a value, by MIME type. Runs in the agent's part of a cell (Border.ours).
  module Formats
    extend Own

    # The same as in IRuby. Each is called without arguments.
    METHODS = {to_html: "text/html", to_markdown: "text/markdown", to_latex: "text/latex", to_svg: "image/svg+xml",
               to_png: "image/png", to_jpeg: "image/jpeg"}.freeze
    # A method that returns [MIME type, data].
    TYPED = :to_iruby
    NAMES = [*METHODS.keys, TYPED].freeze
    MIME = %r{\A[a-z]+/[-a-z0-9.+]+\z}.freeze
    # For the classes of Ruby's core only singleton methods count: libraries add methods to the classes.
    CORE = Agent.constants.map { |name| Agent.const_get(name) }.grep(Class).to_h { |kind| [kind, true] }.compare_by_identity.freeze
    ITEMS_MAX, MESSAGE_MAX = 1000, 1000
    JSON_NODES_MAX, JSON_DEPTH_MAX = 10_000, 100
    DEFINED, METHOD_OF = Module.instance_method(:public_method_defined?), Module.instance_method(:instance_method)
    SINGLETONS, SINGLETON = Kernel.instance_method(:singleton_methods), Kernel.instance_method(:singleton_method)
    INSPECT = Kernel.instance_method(:inspect)
    SIZES = {Array => Array.instance_method(:size), Hash => Hash.instance_method(:size)}.freeze
    FIRSTS = {Array => Array.instance_method(:first), Hash => Hash.instance_method(:first)}.freeze
    EACH, EACH_PAIR, BY_IDENTITY = Encoder::EACH, Encoder::EACH_PAIR, Hash.instance_method(:compare_by_identity?)
    # Exceptions that methods of a user's class may raise without ending the cell.
    FAULTS = [StandardError, ScriptError, SystemStackError, NoMemoryError].freeze

    class << self
      # [data, metadata]
      def of(value)
        data, metadata = {}, {}
        put(data, metadata, "text/plain") { text_of(value) } || data["text/plain"] = "#<#{Agent.class_name(value)}>"
        own_methods(value).each { |name, method| name == TYPED ? put_typed(data, metadata, value, method) : put_own(data, metadata, name, value, method) }
        data["application/json"] = value if json?(value)
        [data, metadata]
      end

      # Bounded: a collection's first items.
      def text_of(value)
        kind = CLASS_OF.bind_call(value)
        size = SIZES[kind]&.bind_call(value) || 0
        return inspect(value) if size <= ITEMS_MAX
        first = FIRSTS[kind].bind_call(value, ITEMS_MAX)
        first = first.to_h if kind == Hash
        text = inspect(first)
        "#{text[0..-2]}, ... #{size - ITEMS_MAX} more#{text[-1]}"
      end

      # True if JSON holds the value exactly, and it is small enough to traverse.
      def json?(value)
        kind = CLASS_OF.bind_call(value)
        return false unless kind == Array || kind == Hash
        left = JSON_NODES_MAX
        walk = lambda do |item, depth|
          left -= 1
          return false if left < 0 || depth > JSON_DEPTH_MAX
          case item
          when nil, true, false then true
          when String then item.encoding != Encoding::BINARY && item.valid_encoding?
          when Integer then item.between?(-SAFE, SAFE)
          when Float then item.finite? && !(item == 0 && 1 / item < 0)
          else items_of(item)&.all? { |inner| walk.call(inner, depth + 1) }
          end
        end
        walk.call(value, 0) == true
      end

      private

      # The items of a plain collection; nil for other values, or keys that no JSON object can have.
      def items_of(item)
        kind = CLASS_OF.bind_call(item)
        return item if kind == Array
        return nil if kind != Hash || SIZES[Hash].bind_call(item) > JSON_NODES_MAX || BY_IDENTITY.bind_call(item)
        keys, values = item.keys, item.values
        keys.all? { |key| key.instance_of?(String) && key.encoding != Encoding::BINARY && key.valid_encoding? } || keys.all?(Symbol) ? values : nil
      end

      def inspect(value)
        text = Border.theirs { BasicObject === value && !(Object === value) ? INSPECT.bind_call(value) : value.inspect }
        String === text ? text : raise(TypeError, "inspect gave #{Agent.class_name(text)} where text was expected")
      end

      def put(data, metadata, kind)
        value = yield
        return true if value.nil?
        data[kind] = value
      rescue *FAULTS => error
        metadata[kind] = {"error" => "#{Agent.class_name(error)}: #{message_of(error)}"}
        nil
      end

      def message_of(error)
        Errors.clean(Border.theirs { error.message })[0, MESSAGE_MAX]
      rescue *FAULTS
        "<message cannot be shown>"
      end

      # Return the methods of the user's classes, by name. Modules and classes are skipped: their methods are their own.
      def own_methods(value)
        kind = CLASS_OF.bind_call(value)
        return {} if kind == Class || kind == Module
        found = CORE.key?(kind) ? {} : NAMES.select { |name| DEFINED.bind_call(kind, name) }.to_h { |name| [name, METHOD_OF.bind_call(kind, name)] }
        singletons = SINGLETONS.bind_call(value, false) & NAMES
        singletons.each { |name| found[name] = SINGLETON.bind_call(value, name).unbind }
        found.select { |_, method| method.arity == 0 || method.arity == -1 }
      end

      def put_own(data, metadata, name, value, method)
        put(data, metadata, METHODS[name]) do
          given = Border.theirs { method.bind_call(value) }
          given.nil? || String === given ? given : raise(TypeError, "#{name} gave #{Agent.class_name(given)} where text was expected")
        end
      end

      def put_typed(data, metadata, value, method)
        put(data, metadata, TYPED.to_s) do
          kind, content = given = Border.theirs { method.bind_call(value) }
          next nil if given.nil?
          is_pair = Array === given && given.size == 2 && String === kind && MIME.match?(kind)
          raise TypeError, "#{TYPED} is to give [MIME type, data]" unless is_pair
          data[kind] = content
          nil
        end
      end
    end
  end
end
