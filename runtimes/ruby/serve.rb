# frozen_string_literal: true

module ClocheAgent
  # Reads requests until the engine closes the channel, and answers them (spec/agent.md).
  module Serve
    extend Own

    PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32_700, -32_600, -32_601, -32_602
    THREW, CANNOT_FORK = -32_000, -32_001
    LIBRARY = "#{FOLDER}/libcloche-guest.so" # exists if the process is to be a template
    CALL = {"code" => String, "filename" => String, "function" => [String, NilClass], "args" => Array, "holes" => Array,
            "kwargs" => Hash, "order" => [Array, NilClass], "resultBytes" => Integer, "globals" => Hash, "imports" => Hash}.freeze
    PREPARE = {"code" => String, "filename" => String, "globals" => Hash, "imports" => Hash}.freeze
    RUN = {"code" => String, "filename" => String, "argv" => Array, "globals" => Hash, "imports" => Hash}.freeze
    DEFAULTS = {"filename" => "main.rb", "function" => nil, "args" => [].freeze, "holes" => [].freeze, "kwargs" => {}.freeze,
                "order" => nil, "argv" => [].freeze, "resultBytes" => 0, "globals" => {}.freeze, "imports" => {}.freeze}.freeze
    TAGGED = %w[args kwargs globals imports].freeze
    METHODS = {"call" => :answer_call, "run" => :answer_run, "prepare" => :answer_prepare, "freeze" => :answer_freeze}.freeze
    CONTEXT_METHODS = %w[open cell describe complete inspect isComplete branch enter].to_h { |name| [name, true] }.freeze
    STREAMS = [$stdout, $stderr].freeze

    # Params that violate spec/agent.md.
    class Invalid < StandardError; end

    # The process exits with this status, after its at_exit blocks.
    class Leave < Exception
      attr_reader :status

      def initialize(status)
        super("leave")
        @status = status
      end
    end

    class << self
      attr_reader :channel
      # The file name of a caller's set-up that ran on the notebook's, or nil.
      attr_reader :set_up
      # The context after `open` (contexts.rb).
      attr_accessor :context

      def main
        @channel = Channel.new(3)
        # A killed run must not lose the lines it printed, nor a fork print them twice.
        STREAMS.each { |stream| stream.sync = true }
        Hooks.install
        Pristine.trust
        status = Thread.handle_interrupt(Object => :never) { work }
        is_good = status == 0
        Hooks.unmute
        Pristine.reapply
        exit(status) unless is_good
      end

      # In a child that the user's code forked. The agent's own children need the channel until they are in their box.
      def forked
        @channel&.drop unless @is_branching
      end

      # The frame to send, as [text, attachments], or nil if the message needs no response.
      def respond(frame)
        request = read_request(frame[0], frame[2])
        return request unless Hash === request
        number, method = request["id"], request["method"]
        @number = number
        return nil if method.nil? || number.nil?
        is_id = String === number || Integer === number
        return failure(nil, INVALID_REQUEST, "the id is neither string nor integer") unless is_id
        return answer_context(method, number, request["params"], frame[1]) if CONTEXT_METHODS.key?(method)
        return failure(number, NO_METHOD, "unknown method #{method[0, 80].inspect}") unless METHODS.key?(method)
        __send__(METHODS[method], number, request["params"], frame[1])
      end

      # User code runs here: open to interrupts, with its changes to Ruby in place.
      def for_user
        Hooks.unmute
        Pristine.reapply
        Border.open { yield }
      ensure
        settle_down
      end

      def read_params(params, attachments, shapes)
        raise Invalid, "params must be an object" unless Hash === params
        request = DEFAULTS.merge(params)
        decoder = Decoder.new(attachments)
        TAGGED.each do |name|
          request[name] = decoder.decode(request[name])
        rescue Refused => refusal
          raise refusal.at(name)
        end
        decoder.finish
        shapes.each do |name, kinds|
          raise Invalid, "params.#{name} is missing or of the wrong type" unless Array(kinds).any? { |kind| kind === request[name] }
        end
        request
      end

      # Disarm handlers and hooks of user code: otherwise they would run inside the agent.
      def settle_down
        Pristine.restore
        set_trace_func(nil)
        Hooks.mute
      rescue Exception
        retry
      end

      # A frame with a result: JSON text.
      def result(number, text, parts = [])
        [%({"jsonrpc":"2.0","id":#{id(number)},"result":) + text + "}", parts]
      end

      def failure(number, code, message, data = nil)
        error = {"code" => code, "message" => String.new(message, encoding: Encoding::UTF_8).scrub}
        error["data"] = data if data
        ['{"jsonrpc":"2.0","id":' + (number ? id(number) : "null") + ',"error":' + Encoder.new(0).encode(error) + "}"]
      end

      def flush
        [$stdout, *STREAMS].each do |stream|
          stream.flush
        rescue Exception
          next
        end
      end

      def bridge
        @bridge ||= Bridge.new
        @bridge.connect(@channel)
        @bridge
      end

      # A child that the user's code forked has reached the end of the code.
      def child_ended(error)
        child_failed(error, "") if error
        raise Leave, 0
      end

      # The template of this process, also as a context; nil if there is none.
      def forks
        @is_template ? @template : nil
      end

      # The fork blocker of this context; nil if it will fork until the next request arrives.
      def branch
        return "this context was not made to be forked" unless @is_template
        blocker = @template.blocker(@channel)
        @is_branching = blocker.nil?
        blocker
      end

      private

      def work
        begin_template if File.exist?(LIBRARY)
        loop do
          serve
          break unless @frozen
          @frozen = false
          @is_template = @template.children(@channel)
          @channel = Channel.new(3)
          get_ready unless @is_template || @channel.input?
        end
        0
      rescue Leave => leave
        leave.status
      rescue BadFrame => error
        @channel.send(failure(nil, PARSE_ERROR, error.message)[0])
        1
      rescue SystemCallError, IOError
        1
      end

      def begin_template
        Agent.part("template")
        @template = Template.new
        @template.warm_up
      end

      # No request waits yet.
      def get_ready
        @is_notebook ? Contexts.get_ready : @template.get_ready
      end

      def serve
        until @frozen
          @number = nil
          frame = (@context ? @bridge.next_request : @channel.read) or return
          answer = respond_in_any_case(frame)
          raise Leave, 0 unless @channel.mine?
          # Threads of a context may send frames too.
          @context ? @bridge.send_frame(*answer) : @channel.send(*answer) if answer
          branch_out if @is_branching
        end
      end

      # Forks until the next request arrives; in a child goes on as a context on a channel of its own.
      def branch_out
        folder = Dir.pwd
        is_template = @template.branches(@channel)
        @is_branching = false
        return if is_template.nil?
        @is_template = is_template
        @channel = Channel.new(3)
        Contexts.entered(@channel, folder)
      end

      def respond_in_any_case(frame)
        respond(frame)
      rescue Leave
        raise
      rescue Exception => late
        # A signal handler of the user's fired between the lines.
        settle_down
        interrupted(late)
      end

      # Without a stack: the last line of the user's code is not known here.
      def interrupted(error)
        message = begin
          String(error.message)
        rescue Exception
          ""
        end
        failure(@number, THREW, message, { "type" => Agent.class_name(error), "message" => message, "stack" => "" })
      end

      # parsed: the message, if it was parsed before.
      def read_request(text, parsed)
        request = parsed || JsonText.parse(text)
        return request if Hash === request && request["jsonrpc"] == "2.0" && String === request.fetch("method", "")
        failure(nil, INVALID_REQUEST, "not a JSON-RPC 2.0 message")
      rescue JsonText::Invalid => error
        failure(nil, PARSE_ERROR, "not JSON: #{error.message}")
      end

      # ---- methods ----

      def answer_call(number, params, attachments)
        answer_code(number, params, attachments, CALL) do |request|
          value, source = Call.call(request) { |work| for_user(&work) }
          [value, %("signatureSource":"#{source}",)]
        end
      end

      def answer_prepare(number, params, attachments)
        answer_code(number, params, attachments, PREPARE) do |request|
          Call.prepare(request["code"], request["filename"]) { |work| for_user(&work) }
          @set_up = request["filename"] if @is_notebook
          @is_notebook ||= notebook?
          [nil, ""]
        end
      end

      # True if the set-up leaves contexts to be forked from it.
      def notebook?
        Object.const_defined?(:ClocheNotebook_, false) && load_cells.notebook?
      end

      def answer_context(method, number, params, attachments)
        load_cells.answer(method, number, params, attachments)
      end

      def load_cells
        %w[rare bridge cells contexts].each { |name| Agent.part(name) }
        Contexts
      end

      def answer_freeze(number, _params, _attachments)
        return failure(number, CANNOT_FORK, "this process was not started as a template") unless @template
        blocker = @template.freeze(@channel)
        return failure(number, CANNOT_FORK, blocker) if blocker
        @frozen = true
        success(number, nil, "", 0)
      end

      # A script: its streams and its exit code are the result.
      def answer_run(number, params, attachments)
        request = read_params(params, attachments, RUN)
        raise Leave, run_script(request)
      rescue Invalid, Refused => error
        failure(number, INVALID_PARAMS, error.message)
      end

      def run_script(request)
        offer_host(request)
        Call.run(request["code"], request["filename"], request["argv"].map(&:to_s)) { |work| for_user(&work) }
        0
      rescue SystemExit => error
        error.status
      rescue Exception => error
        tell_on_stderr(error, request["filename"])
        1
      end

      # The block maps the request to a value and the head of the result's JSON.
      def answer_code(number, params, attachments, shapes)
        request = read_params(params, attachments, shapes)
        begin
          offer_host(request)
          value, head = yield request
          answer = success(number, value, head, request["resultBytes"], request["filename"])
        rescue Exception => error
          settle_down
          answer = threw(number, error, request)
        end
        flush
        answer
      rescue Invalid, Refused => error
        failure(number, INVALID_PARAMS, error.message, "type" => "TypeError", "message" => error.message, "stack" => "")
      end

      # Declare the host's functions: at the top level of the code, and for require. A prefix's
      # declarations stay, on the new channel.
      def offer_host(request)
        return if @bridge.nil? && request["globals"].empty? && request["imports"].empty?
        Agent.part("rare")
        Agent.part("bridge")
        bridge.declare(request["globals"], request["imports"])
      end

      # ---- responses ----

      def success(number, value, head, limit, filename = "main.rb")
        encoder = Encoder.new(limit)
        text = encoder.encode(value)
        result(number, "{#{head}\"value\":" + text + "}", encoder.parts)
      rescue Refused => refusal
        raise TypeError, "#{refusal.message}; returned by #{Call.place_of_called(filename)}", cause: nil
      rescue TooLarge => error
        raise RangeError, error.message, cause: nil
      end

      def id(number)
        String === number ? Encoder.quote(number) : number.to_s
      end

      def threw(number, error, request)
        raise error if Leave === error
        child_failed(error, request["filename"]) unless @channel.mine?
        data = describe(error, request["filename"])
        data["signatureSource"] = Call.source if Call.source
        failure(number, THREW, data["message"], data)
      end

      def describe(error, filename)
        tries ||= 0
        Agent.part("errors")
        Errors.describe(error, filename)
      rescue Exception
        # A signal that came before its handler was muted raises here, once.
        retry if (tries += 1) < 3
        # Out of memory or stack, or an exception whose own description throws.
        {"type" => Agent.class_name(error), "message" => "", "stack" => ""}
      end

      # As in a plain interpreter: a forked child that throws prints that to stderr, or ends with
      # the status of its exit.
      def child_failed(error, filename)
        raise Leave, error.status if SystemExit === error
        tell_on_stderr(error, filename)
        raise Leave, 1
      end

      def tell_on_stderr(error, filename)
        Agent.part("errors")
        STREAMS[1].write(Errors.stack_of(error, filename))
      rescue IOError, SystemCallError
        nil
      end

    end
  end
end
