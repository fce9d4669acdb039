# frozen_string_literal: true

module ClocheAgent
  # The contents of a context for tools: its names, and completions. Runs no user code.
  module Names
    extend Own

    NAMES_MAX, SUMMARY_MAX, MATCHES_MAX = 1000, 200, 500
    TEXT_MAX, BITS_MAX = 150, 512
    LOCALS, LOCAL = Binding.instance_method(:local_variables), Binding.instance_method(:local_variable_get)
    IVARS, IVAR, METHODS, PRIVATE = %i[instance_variables instance_variable_get methods private_methods].map do |name|
      Kernel.instance_method(name)
    end
    CONSTANTS, CONSTANT, IS_CONSTANT, IS_AUTOLOAD, LOCATION = %i[constants const_get const_defined? autoload? const_source_location].map do |name|
      Module.instance_method(name)
    end
    # The notation of a parameter.
    MARKS = {req: "%s", opt: "%s = ...", rest: "*%s", keyreq: "%s:", key: "%s: ...", keyrest: "**%s", block: "&%s", nokey: "**nil"}.freeze
    KEYWORDS = %w[BEGIN END alias and begin break case class def defined? do else elsif end ensure false for if in module next nil not or
                  redo rescue retry return self super then true undef unless until when while yield __FILE__ __LINE__ __method__].freeze
    # The text before the cursor: the beginning of a name, and its receiver.
    WORD = /[[:alnum:]_$@]*[?!]?\z/.freeze
    RECEIVER = /(?:(?<path>(?:::)?[$@]?[[:alpha:]_][[:alnum:]_]*(?:::[A-Z]\w*)*)|(?<literal>["'\]}]))(?<dot>&?\.|::)\z/.freeze
    LITERALS = {'"' => String, "'" => String, "]" => Array, "}" => Hash}.freeze
    # Names to offer: no operators, no setters.
    NAME = /\A[[:alpha:]_][[:alnum:]_]*[?!]?\z/.freeze
    # Short descriptions of values, by exact class.
    SUMMARIES = {
      String => ->(value) { Names.text(value) }, Integer => ->(value) { Names.integer(value) }, Range => ->(value) { Names.range(value) },
      Proc => ->(value) { "#{value.lambda? ? "lambda" : "proc"}(#{Names.arguments(value)})" },
      Method => ->(value) { "#{value.name}(#{Names.arguments(value)})" }, UnboundMethod => ->(value) { "#{value.name}(#{Names.arguments(value)})" },
      Class => ->(value) { NAME_OF.bind_call(value) || "without a name" }, Module => ->(value) { NAME_OF.bind_call(value) || "without a name" }
    }.compare_by_identity
    [NilClass, TrueClass, FalseClass, Float, Symbol].each do |kind|
      inspect = kind.instance_method(:inspect)
      SUMMARIES[kind] = ->(value) { inspect.bind_call(value) }
    end
    [Array, Hash].each do |kind|
      size = kind.instance_method(:size)
      SUMMARIES[kind] = ->(value) { Names.count(size.bind_call(value)) }
    end

    class << self
      # Names that exist before the first cell are not the user's.
      def remember
        return if @is_known
        names = [global_variables, CONSTANTS.bind_call(Object), Call.own_methods.keys, LOCALS.bind_call(Call::TOP)]
        @globals, @constants, @methods, @locals = names.map { |list| list.to_h { |name| [name, true] } }
        @is_known = true
      end

      # ---- variables ----

      def describe(scope)
        own = Call.own_methods
        rows = fresh(LOCALS.bind_call(scope), @locals) { |name| LOCAL.bind_call(scope, name) }
        rows += fresh(IVARS.bind_call(Call::MAIN), {}) { |name| IVAR.bind_call(Call::MAIN, name) }
        rows += fresh(global_variables, @globals) { |name| Call::EVAL.bind_call(Call::TOP, name.to_s) }
        rows += fresh(constants_of(Object).select { |name| here?(LOCATION.bind_call(Object, name)) }, @constants) { |name| CONSTANT.bind_call(Object, name) }
        rows += fresh(own.keys.select { |name| here?(own[name].source_location) }, @methods) { |name| own[name] }
        {"variables" => rows.take(NAMES_MAX).map { |name, value| row(name, value) }}
      end

      def text(value)
        cut = value[0, TEXT_MAX]
        cut.size == value.size ? cut.inspect : "#{cut.inspect}... (#{value.size})"
      end

      def integer(value)
        value.bit_length < BITS_MAX ? value.to_s : "#{value.bit_length} bits"
      end

      def range(value)
        ends = [value.begin, value.end].map { |item| item.nil? ? "" : summary(item) }
        ends.join(value.exclude_end? ? "..." : "..")
      end

      def count(size)
        "#{size} item#{"s" unless size == 1}"
      end

      def arguments(callable)
        callable.parameters.map { |kind, name| format(MARKS[kind], name) }.join(", ")
      end

      # ---- completions ----

      # Completions at a place of the code; places count characters.
      def complete(scope, code, at)
        before = code[0, at]
        start = before[WORD]
        head = before[0, before.size - start.size]
        found = candidates(scope, head, start).map(&:to_s).select { |name| name.start_with?(start) && name != start }
        found = found.uniq.sort.take(MATCHES_MAX)
        {"matches" => found.map { |name| Errors.clean(name) }, "from" => found.empty? ? at : head.size, "to" => at}
      end

      def summary(value)
        known = SUMMARIES[CLASS_OF.bind_call(value)]
        known ? known.call(value) : Agent.class_name(value)
      end

      # [is there one, value] for a variable, or for constants.
      def value_of(scope, path)
        first, *rest = path.delete_prefix("::").split("::")
        value = if first.match?(/\A[A-Z]/) then constant(Object, first)
                elsif LOCALS.bind_call(scope).include?(first.to_sym) then [true, LOCAL.bind_call(scope, first)]
                elsif first.start_with?("@") then IVARS.bind_call(Call::MAIN).include?(first.to_sym) && [true, IVAR.bind_call(Call::MAIN, first)]
                elsif first.start_with?("$") then global_variables.include?(first.to_sym) && [true, Call::EVAL.bind_call(Call::TOP, first)]
                end
        rest.inject(value) { |(is_there, owner), name| is_there && Module === owner && constant(owner, name) } || [false, nil]
      end

      private

      def fresh(names, known)
        names.reject { |name| known.key?(name) || name.start_with?("_") }.take(NAMES_MAX).map { |name| [name, yield(name)] }
      end

      # Without autoload constants, which would load a file.
      def constants_of(owner)
        CONSTANTS.bind_call(owner).reject { |name| IS_AUTOLOAD.bind_call(owner, name) }
      end

      # True for a place in a cell, or in a file below the working directory; false for a library.
      def here?(location)
        file, = location
        file && (Serve.context&.cell?(file) || file.start_with?("#{Dir.pwd}/"))
      end

      def row(name, value)
        type = UnboundMethod === value ? "Method" : Agent.class_name(value)
        {"name" => Errors.clean(name.to_s), "type" => type, "summary" => Errors.clean(summary(value))[0, SUMMARY_MAX]}
      end

      def candidates(scope, head, start)
        receiver = RECEIVER.match(head)
        return of_receiver(scope, receiver) if receiver
        return [] if head.end_with?(".")
        case start[0]
        when "$" then global_variables
        when "@" then IVARS.bind_call(Call::MAIN)
        when "A".."Z" then constants_of(Object)
        else LOCALS.bind_call(scope) + functions + KEYWORDS
        end
      end

      def functions
        named(PRIVATE.bind_call(Call::MAIN) + METHODS.bind_call(Call::MAIN, false))
      end

      def named(names)
        names.select { |name| NAME.match?(name) }
      end

      def of_receiver(scope, receiver)
        return named(LITERALS[receiver[:literal]].public_instance_methods) if receiver[:literal]
        is_there, value = value_of(scope, receiver[:path])
        return [] unless is_there
        methods = named(METHODS.bind_call(value))
        receiver[:dot] == "::" && Module === value ? constants_of(value) + methods : methods
      end

      def constant(owner, name)
        return nil if IS_AUTOLOAD.bind_call(owner, name) || !IS_CONSTANT.bind_call(owner, name)
        [true, CONSTANT.bind_call(owner, name)]
      end
    end
  end
end
