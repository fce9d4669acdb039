# frozen_string_literal: true

module ClocheAgent
  # Runs the user's code at Ruby's top level, finds the function in it, and calls it.
  module Call
    extend Own

    TOP = TOPLEVEL_BINDING
    MAIN = TOP.receiver
    EVAL, BINDING = Binding.instance_method(:eval), Proc.instance_method(:binding)
    # Called by Ruby itself.
    CALLBACKS = %i[initialize method_missing respond_to_missing? method_added].freeze
    # The scope of a call: `return` ends it, and args and kwargs are its variables. The block
    # parameter is gone before the user's code begins.
    SCOPE = "->(args, kwargs, &_) { _.call(->() {}) }"
    METHOD, METHOD_OF = Kernel.instance_method(:method), Module.instance_method(:instance_method)
    PRIVATE_METHODS, METHODS = Module.instance_method(:private_instance_methods), Module.instance_method(:instance_methods)
    NAME = /\A(?:[A-Za-z_]\w*[?!=]?|\$\w+|[^\x00-\x7f]+)\z/.freeze
    Found = Struct.new(:callable, :name)

    class << self
      # [value, signature source]. The block is put around user code.
      def call(request)
        @source = @called = nil
        args, holes, keywords, order = request.values_at("args", "holes", "kwargs", "order")
        value, scope, found = load(request, args, keywords) { |work| yield work }
        found = resolve(request["function"], scope) { |work| yield work } if request["function"]
        unless found
          refuse_unused(request["code"]) unless args.empty? && keywords.empty?
          return [value, order ? "schema" : "convention"]
        end
        @source = order ? "schema" : Signature.known?(found.callable) ? "inferred" : "convention"
        positional, named = Signature.bind(found.callable, found.name, args, holes, keywords, order)
        @called = found
        [yield(-> { found.callable.call(*positional, **named) }), @source]
      end

      # Source of the call's signature, nil while it is unknown.
      attr_reader :source

      # The place of the function that returned an unsendable value.
      def place_of_called(filename)
        line = @called && @called.callable.source_location&.last
        line ? "#{@called.name} (#{filename}, line #{line})" : filename
      end

      # Run set-up code. Its methods, constants, globals and top-level variables are there for the code of every run.
      def prepare(code, filename)
        name_program(code, filename)
        yield -> { EVAL.bind_call(TOP, code, filename, 1) }
      end

      # A script: its streams and its exit code are the result.
      def run(code, filename, argv)
        name_program(code, filename)
        ARGV.replace(argv)
        yield -> { evaluate(code, filename, nil, nil) }
      end

      def name_program(code, filename)
        $PROGRAM_NAME = filename
        at = code.index(/^__END__\r?\n/) or return
        require "stringio"
        Object.__send__(:remove_const, :DATA) if Object.const_defined?(:DATA, false)
        Object.const_set(:DATA, StringIO.new(code[at..-1].lines[1..-1].join))
      end

      # The functions of the top level.
      def own_methods
        names = PRIVATE_METHODS.bind_call(Object, false) + METHODS.bind_call(Object, false)
        names.to_h { |name| [name, METHOD_OF.bind_call(Object, name)] }
      end

      private

      # The result of the code, the binding it ran in, and the function it defines. If it defines
      # none the code was the function.
      def load(request, args, keywords)
        code, filename = request.values_at("code", "filename")
        name_program(code, filename)
        before = own_methods
        scope = nil
        body_keywords = keywords.to_h { |name, value| [name.to_sym, value] }
        value = yield -> { evaluate(code, filename, args, body_keywords) { |binding| scope = binding } }
        found = request["function"] ? nil : only_function(before, filename)
        [value, scope, found]
      end

      # Code that only defines a class would drop its arguments silently.
      def refuse_unused(code)
        Agent.part("unused")
        found = Unused.by(code) or return
        raise ArgumentError, "the code defines no function that could take the arguments, but #{found}"
      end

      def evaluate(code, filename, args, keywords)
        EVAL.bind_call(TOP, SCOPE, __FILE__, 1).call(args, keywords) do |inside|
          scope = BINDING.bind_call(inside)
          scope.local_variable_set(:_, nil)
          yield scope if block_given?
          EVAL.bind_call(scope, code, filename, 1)
        end
      end

      # ---- the function ----

      def only_function(before, filename)
        fresh = own_methods.select do |name, method|
          method != before[name] && !name.start_with?("_") && !CALLBACKS.include?(name) && file_of(method) == filename
        end
        names = fresh.keys.sort_by { |name| fresh[name].source_location[1] }
        raise ArgumentError, "code defines several public functions (#{names.join(", ")}): name one" if names.size > 1
        names.empty? ? nil : Found.new(METHOD.bind_call(MAIN, names[0]), names[0].to_s)
      end

      # "add", "Tools.add", "Shop::Cart.total", "$handler", or a variable of the top level that holds a function.
      def resolve(name, scope)
        first, *rest = name.split(/\.|::/, -1)
        missing(name, scope) unless [first, *rest].all? { |step| NAME.match?(step) }
        target = first_step(first, scope, rest.empty?) { missing(name, scope) }
        until rest.empty?
          step = rest.shift
          target = yield(-> { next_step(target, step, rest.empty?) { missing(name, scope) } })
        end
        return Found.new(target, name) if Proc === target || Method === target
        raise TypeError, "'#{name}' is not a function but #{Agent.class_name(target)}"
      end

      def first_step(name, scope, is_last, &missing)
        if name.start_with?("$")
          global_variables.include?(name.to_sym) ? EVAL.bind_call(TOP, name) : missing.call
        elsif variable?(name, scope) then scope.local_variable_get(name)
        elsif name.match?(/\A[A-Z]/) && Object.const_defined?(name) then Object.const_get(name)
        else (method = function(name)) ? (is_last ? method : method.call) : missing.call
        end
      end

      def variable?(name, scope)
        name.match?(/\A[a-z_]\w*\z/) && !%w[args kwargs _].include?(name) && scope.local_variable_defined?(name)
      end

      # A function of the top level, if the code, or a file it loaded, has defined it.
      def function(name)
        method = METHOD.bind_call(MAIN, name)
        built_in = BUILT_IN[method.name]
        built_in && built_in == method.unbind ? nil : method
      rescue NameError
        nil
      end

      def next_step(target, name, is_last)
        return target.const_get(name) if Module === target && name.match?(/\A[A-Z]/) && target.const_defined?(name)
        return yield unless target.respond_to?(name)
        is_last ? METHOD.bind_call(target, name) : target.public_send(name)
      end

      def missing(name, scope)
        raise NameError, "function '#{name}' is not defined in the code; it defines: #{defined_names(scope)}"
      end

      def defined_names(scope)
        names = own_methods.keys.select { |name| !name.start_with?("_") && function(name) && own_file?(name) }
        scope.local_variables.each { |name| names << name if Proc === scope.local_variable_get(name) }
        names.empty? ? "none" : names.join(", ")
      end

      def own_file?(name)
        file_of(METHOD_OF.bind_call(Object, name)) == $PROGRAM_NAME
      end

      def file_of(method)
        method.source_location&.first
      end
    end

    BUILT_IN = (MAIN.private_methods + MAIN.methods).to_h { |name| [name, MAIN.method(name).unbind] }.freeze
  end
end
