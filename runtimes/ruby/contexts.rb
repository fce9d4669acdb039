# frozen_string_literal: true

module ClocheAgent
  # The requests of contexts.
  module Contexts
    extend Own

    SHAPES = {
      "open" => {"cwd" => [String, NilClass], "env" => Hash, "language" => String},
      "cell" => {"code" => String, "count" => Integer, "filename" => [String, NilClass], "storeBytes" => Integer,
                 "silent" => [TrueClass, FalseClass]},
      "complete" => {"code" => String, "at" => Integer}, "inspect" => {"code" => String, "at" => Integer, "detail" => Integer},
      "isComplete" => {"code" => String}, "describe" => {}, "branch" => {}, "enter" => {}
    }.freeze
    DEFAULTS = {
      "open" => {"cwd" => nil, "env" => {}, "language" => "ruby"},
      "cell" => {"filename" => nil, "storeBytes" => Context::STORE_BYTES, "silent" => false}
    }.freeze
    COUNTS = %w[count storeBytes at detail].freeze
    PARTS = %w[errors rare bridge displays formats shell commands names looks packages].freeze
    ANSWERS = SHAPES.to_h { |name, _| [name, :"answer_#{name.gsub(/[A-Z]/) { |letter| "_#{letter.downcase}" }}"] }.freeze
    # A constant that set-up code leaves if contexts are to be forked from it (notebook.rb).
    MARK = :ClocheNotebook_
    REHEARSALS = 20
    DEFINED = Binding.instance_method(:local_variable_defined?)
    REHEARSED = ["1 + 1", "x_ = [1, {\"a\" => 2.5}]\nx_", "def f_(a) = {a: a}\nf_(1)", "1 / 0", "x_ = ", "puts nil.to_a; [1].each { |i| i }; x_",
                 "Cloche.html('<b>')", "class ClocheRehearsal_; def to_html = inspect; end; ClocheRehearsal_.new"].freeze

    class << self
      def answer(method, number, params, attachments)
        request = read(method, params, attachments)
        is_first = method == "open" || method == "enter"
        return refuse(number, "a context is open here already") if is_first && Serve.context
        return refuse(number, "no context is open here: `open` comes before `#{method}`") unless is_first || Serve.context
        __send__(ANSWERS.fetch(method), number, request)
      rescue Serve::Invalid, Refused => error
        Serve.failure(number, Serve::INVALID_PARAMS, error.message)
      end

      # True if the set-up that has just run was a notebook's. Then the parts that cells need are
      # loaded and run before the fork.
      def notebook?
        return false unless Object.const_defined?(MARK, false)
        Object.__send__(:remove_const, MARK)
        Pristine.trust
        load_parts
        rehearse(REHEARSALS, REHEARSED)
        Names.describe(Call::TOP)
        Names.complete(Call::TOP, "pu", 2)
        Looks.judge(Call::TOP, "if x")
        true
      end

      # Runs in a child before a request waits for it. A variable `_` of a caller's set-up would change.
      def get_ready
        return if DEFINED.bind_call(Call::TOP, :_)
        rehearse(1, REHEARSED[0, 1])
      end

      # A context that was forked from a context.
      def entered(channel, folder)
        @parent, Serve.context = Serve.context, nil
        @parent.connect(channel, Serve.bridge)
        @folder = folder
      end

      private

      def read(method, params, attachments)
        raise Serve::Invalid, "params must be an object" unless Hash === params
        request = Serve.read_params(DEFAULTS.fetch(method, {}).merge(params), attachments, SHAPES[method])
        COUNTS.each { |name| raise Serve::Invalid, "params.#{name} is #{request[name]}: less than 0" if request.fetch(name, 0) < 0 }
        check_open(request) if method == "open"
        request
      end

      def check_open(request)
        raise Serve::Invalid, "params.language is #{request["language"][0, 80].inspect}: this is the agent of ruby" if request["language"] != "ruby"
        request["env"].each do |name, text|
          next if String === text && !name.empty? && !name.include?("=") && !name.include?("\0") && !text.include?("\0")
          raise Serve::Invalid, "params.env[#{name[0, 80].inspect}] is no variable of an environment: a name without =, and text, neither with NUL"
        end
      end

      def refuse(number, message)
        Serve.failure(number, Serve::INVALID_REQUEST, message)
      end

      def success(number, tree)
        Serve.result(number, Encoder.new(0).encode(tree))
      end

      def answer_open(number, request)
        load_parts
        ENV.update(request["env"])
        Packages.open
        go_to(request["cwd"]) if request["cwd"]
        Hooks.stay
        Serve.context = Context.new(Serve.channel, Serve.bridge, Call::TOP)
        Border.watch
        success(number, "pid" => Process.pid, "interpreter" => "Ruby #{RUBY_VERSION}")
      rescue SystemCallError => error
        message = "the context cannot be in #{request["cwd"]}: #{error.message}"
        Serve.failure(number, Serve::THREW, message, "type" => Agent.class_name(error), "message" => message, "stack" => "")
      end

      def go_to(folder)
        Call::MAIN.__send__(:require, "fileutils")
        FileUtils.mkdir_p(folder)
        Dir.chdir(folder)
      end

      def answer_cell(number, request)
        success(number, Serve.context.run(request))
      end

      def answer_describe(number, _request)
        success(number, Names.describe(Call::TOP))
      end

      def answer_complete(number, request)
        code = request["code"]
        success(number, Names.complete(Call::TOP, code, [request["at"], code.size].min))
      end

      def answer_inspect(number, request)
        code = request["code"]
        look(number) { {"data" => Looks.inspect_at(Call::TOP, code, [request["at"], code.size].min, request["detail"] > 0)} }
      end

      def answer_is_complete(number, request)
        look(number) { Looks.judge(Call::TOP, request["code"]) }
      end

      # An interrupt ends it, as it ends a cell.
      def look(number)
        Border.begin_cell
        success(number, Border.open { yield })
      rescue Interrupt
        message = "the look at the code was interrupted"
        Serve.failure(number, Serve::THREW, message, "type" => "Interrupt", "message" => message, "stack" => "")
      ensure
        Border.end_cell
      end

      def answer_branch(number, _request)
        blocker = Serve.branch
        blocker ? Serve.failure(number, Serve::CANNOT_FORK, blocker) : success(number, {})
      end

      # The process is in its box's /workspace already.
      def answer_enter(number, _request)
        return refuse(number, "this process was not forked from a context: `open` comes first") unless @parent
        begin
          Dir.chdir(@folder)
        rescue SystemCallError
          Dir.chdir("/workspace")
        end
        Serve.context, @parent = @parent, nil
        success(number, "pid" => Process.pid)
      end

      def load_parts
        PARTS.each { |name| Agent.part(name) }
        Pristine.trusting { Shell.install }
        Names.remember
      end

      # ---- in a template ----

      # Stands for a channel, and answers every request.
      module Nowhere
        def self.mine?
          true
        end

        def self.send(text, _parts = [])
          @number = text[/"id":([0-9]+)/, 1]
        end

        def self.read(_waiting)
          [%({"jsonrpc":"2.0","id":#{@number},"result":{}}), ""]
        end
      end

      # Leaves nothing in the user's scope: its variables are those of a copy.
      def rehearse(times, codes)
        name, verbose, handler = $PROGRAM_NAME, $VERBOSE, trap("INT", "DEFAULT")
        $VERBOSE = nil
        bridge = Bridge.new
        bridge.connect(Nowhere)
        Serve.context = Context.new(Nowhere, bridge, Call::TOP.dup)
        Border.watch
        times.times { codes.each { |code| run_rehearsal(code) } }
      ensure
        Serve.context = nil
        trap("INT", handler)
        $PROGRAM_NAME, $VERBOSE = name, verbose
        forget_rehearsal if codes.size > 1
      end

      def forget_rehearsal
        Object.__send__(:remove_const, :ClocheRehearsal_) if Object.const_defined?(:ClocheRehearsal_, false)
        Object.__send__(:remove_method, :f_) if Object.private_method_defined?(:f_, false)
      end

      def run_rehearsal(code)
        Serve.context.run("code" => code, "count" => 1, "filename" => nil, "storeBytes" => Context::STORE_BYTES, "silent" => false)
      end
    end
  end
end
