# frozen_string_literal: true

module ClocheAgent
  # Looks at code and at names: `inspect` and `isComplete`. They run no code of the cells: methods are found in classes, and no
  # object is asked.
  module Looks
    extend Own

    TEXT_MAX, SOURCE_LINES_MAX, COMMENT_LINES_MAX, FILE_MAX, CALL_MAX = 64 << 10, 300, 50, 1 << 20, 10_000
    METHOD, DEFINED, PRIVATELY = %i[instance_method method_defined? private_method_defined?].map { |name| Module.instance_method(name) }
    SINGLETONS, SINGLETON = Kernel.instance_method(:singleton_methods), Kernel.instance_method(:singleton_method)
    STAT, READ, MESSAGE = ::File.method(:stat), ::File.method(:read), ::Exception.instance_method(:to_s)
    IS_FILE, SIZE = ::File::Stat.instance_method(:file?), ::File::Stat.instance_method(:size)
    PLACE, ABOVE = Module.instance_method(:const_source_location), Class.instance_method(:superclass)
    # A name with its receiver; `at` is in its last part, or at the end of that.
    PATH = /(?:(?<receiver>(?:::)?[$@]*[[:alpha:]_][[:alnum:]_]*(?:::[A-Z]\w*)*)(?<dot>&?\.|::))?(?<name>[$@]*[[:alpha:]_][[:alnum:]_]*[?!]?)\z/.freeze
    REST = /\A[[:alnum:]_]*[?!]?/.freeze
    LITERAL = /(?<literal>["'\]}])(?:&?\.)(?<name>[[:alpha:]_][[:alnum:]_]*[?!]?)\z/.freeze
    NOTHING = [].freeze
    OPEN = /unexpected end-of-input|meets end of file|can't find string ".*" anywhere before EOF/.freeze
    BLOCK = /[\[({]\z|\b(?:do|then|else|begin)\s*(?:\|[^|]*\|)?\z|\A\s*(?:def|class|module|if|unless|while|until|case|for|begin)\b/.freeze
    # In Ruby from 3.4 on the other parser is the default, with other messages.
    COMPILE = ISEQ.method(ISEQ.respond_to?(:compile_parsey) ? :compile_parsey : :compile)

    class << self
      # ---- inspect ----

      # Forms by MIME type; empty if there is no such name. `at` counts characters.
      def inspect_at(scope, code, at, is_detailed)
        rows = rows_of(scope, code, at, is_detailed) || (called = call_before(code, at)) && rows_of(scope, code, called, is_detailed)
        rows ? {"text/plain" => Errors.clean(rows.join("\n"))[0, TEXT_MAX]} : {}
      end

      # ---- isComplete ----

      def judge(scope, code)
        names = LOCALS.bind_call(scope).map(&:to_s).select { |name| name.match?(/\A[[:lower:]_]\w*\z/) }
        status = judged("#{names.empty? ? "" : "#{names.join(" = ")} = nil"}\n#{code}\n")
        status = "incomplete" if status == "complete" && goes_on?(code)
        {"status" => status, "indent" => status == "incomplete" ? indent(code) : ""}
      end

      private

      LOCALS = Binding.instance_method(:local_variables)

      def judged(code)
        verbose, $VERBOSE = $VERBOSE, nil
        COMPILE.call(code, "cell")
        "complete"
      rescue ::SyntaxError => error
        # The first error decides: at the end of code with a mistake something is missing, too.
        MESSAGE.bind_call(error).lines[0].to_s.match?(OPEN) ? "incomplete" : "invalid"
      rescue ::EncodingError, ::ArgumentError
        "invalid"
      rescue ::SystemStackError, ::NoMemoryError
        "unknown"
      ensure
        $VERBOSE = verbose
      end

      def goes_on?(code)
        last = code.lines.last.to_s.chomp
        last.end_with?("\\") && !last.end_with?("\\\\") && !last.include?("#")
      end

      def indent(code)
        last = code.rstrip.lines.last.to_s
        last[/\A[ \t]*/] + (last.match?(BLOCK) ? "  " : "")
      end

      # ---- the name ----

      # The end of the name of the call in whose brackets `at` is.
      def call_before(code, at)
        depth = 0
        place = [at, code.size].min
        while (place -= 1) >= 0 && place > at - CALL_MAX
          case code[place]
          when ")", "]", "}" then depth += 1
          when "(", "[", "{"
            return code[place] == "(" ? place : nil if depth == 0
            depth -= 1
          end
        end
      end

      def rows_of(scope, code, at, is_detailed)
        head = code[0, at]
        head += code[at..][REST] if head.match?(/[[:alnum:]_$@]\z/)
        if (found = LITERAL.match(head))
          return method_rows(method_in(Names::LITERALS[found[:literal]], found[:name]), found[:name], is_detailed)
        end
        found = PATH.match(head) or return
        return if found.pre_match.end_with?(".")
        found[:receiver] ? of_receiver(scope, found, is_detailed) : of_name(scope, found[:name], is_detailed)
      end

      def of_name(scope, name, is_detailed)
        is_there, value = Names.value_of(scope, name)
        return value_rows(value, name, is_detailed, Object) if is_there
        method = singleton_of(Call::MAIN, name) || method_in(Object, name)
        method_rows(method, name, is_detailed)
      end

      def of_receiver(scope, found, is_detailed)
        is_there, owner = Names.value_of(scope, found[:receiver])
        return unless is_there
        name = found[:name]
        if found[:dot] == "::" && Module === owner && name.match?(/\A[A-Z]/)
          is_there, value = Names.value_of(scope, "#{found[:receiver]}::#{name}")
          return value_rows(value, name, is_detailed, owner) if is_there
        end
        method = Module === owner ? module_method(owner, name) : singleton_of(owner, name) || method_in(CLASS_OF.bind_call(owner), name)
        method_rows(method, name, is_detailed, name == "new" && Class === owner ? owner : nil)
      end

      # ---- methods, none of which is called ----

      def method_in(owner, name)
        METHOD.bind_call(owner, name) if DEFINED.bind_call(owner, name) || PRIVATELY.bind_call(owner, name)
      end

      def singleton_of(value, name)
        SINGLETON.bind_call(value, name) if SINGLETONS.bind_call(value, false).include?(name.to_sym)
      rescue ::NameError, ::TypeError
        nil
      end

      # The method is the module's own, or of a class above it, or of their class.
      def module_method(owner, name)
        above = owner
        while above
          found = singleton_of(above, name)
          return found if found
          above = Class === above ? ABOVE.bind_call(above) : nil
        end
        method_in(CLASS_OF.bind_call(owner), name)
      end

      # ---- rows ----

      # made: the class, if the method is its `new`.
      def method_rows(method, name, is_detailed, made = nil)
        return unless method
        shown = made && method_in(made, "initialize") || method
        lines, line = lines_at(shown.source_location)
        ["Signature: #{name}(#{Names.arguments(shown)})", *comment(lines, line), "Owner: #{named(method.owner)}", "Type: Method",
         *(source(lines, line, shown.source_location) if is_detailed)]
      end

      def value_rows(value, name, is_detailed, owner)
        return module_rows(value, name, is_detailed, owner) if Module === value
        ["Value: #{Names.summary(value)}", "Type: #{Agent.class_name(value)}"]
      end

      def module_rows(value, name, is_detailed, owner)
        place = PLACE.bind_call(owner, name) if name.match?(/\A[A-Z]/) # a variable has no place
        lines, line = lines_at(place)
        rows = []
        rows << "Signature: #{name}.new(#{Names.arguments(method_in(value, "initialize"))})" if Class === value && method_in(value, "initialize")
        rows += comment(lines, line)
        rows << "Superclass: #{named(ABOVE.bind_call(value))}" if Class === value && ABOVE.bind_call(value)
        rows << "Type: #{Agent.class_name(value)}"
        rows + (is_detailed ? source(lines, line, place) : [])
      end

      def named(owner)
        NAME_OF.bind_call(owner) || "without a name"
      end

      # ---- sources ----

      # [lines of the file, number of the line from 0]
      def lines_at(location)
        file, line = location
        return [NOTHING, 0] unless String === file && Integer === line && line > 0
        text = Serve.context.source(file) || read(file)
        [text ? text.lines : NOTHING, line - 1]
      end

      def read(file)
        about = STAT.call(file)
        return unless IS_FILE.bind_call(about) && SIZE.bind_call(about) <= FILE_MAX
        text = READ.call(file, encoding: "UTF-8")
        text.valid_encoding? ? text : nil
      rescue ::SystemCallError, ::ArgumentError
        nil
      end

      # Lines of a comment directly above a definition.
      def comment(lines, line)
        first = line
        first -= 1 while first > 0 && line - first < COMMENT_LINES_MAX && lines[first - 1]&.match?(/\A\s*#(?!!)/)
        text = (lines[first...line] || NOTHING).map { |one| one.sub(/\A\s*# ?/, "").chomp }
        text.empty? ? NOTHING : ["Documentation: #{text.join("\n")}"]
      end

      # From the first line of a definition to the one that completes it.
      def source(lines, line, location)
        place = location && "File: #{location[0]}:#{location[1]}"
        taken = lines[line, SOURCE_LINES_MAX] || NOTHING
        last = taken.each_index.map { |index| index + 1 }.find { |count| judged(taken[0, count].join) == "complete" }
        [*place, *(last && "Source:\n#{taken[0, last].join.chomp}")]
      end
    end
  end
end
