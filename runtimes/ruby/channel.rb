# frozen_string_literal: true

module ClocheAgent
  # The stream is out of step: no frame can be read from it any more.
  class BadFrame < StandardError; end

  # Frames on the agent's socket: u32 length, u32 json_length, JSON, attachments; little endian.
  class Channel
    include Own

    FRAME_MAX = 1 << 30
    JSON_MAX = 256 << 20
    SMALL = 1 << 16
    PIECE = 1 << 20
    # High numbers stay clear of what user code opens or closes by habit; the low ones serve a small RLIMIT_NOFILE.
    NUMBERS = [1000, 500, 200, 60, 15].freeze
    F_GETFL, F_SETFL, F_DUPFD_CLOEXEC = 3, 4, 1030

    def initialize(number)
      @io = move(IO.for_fd(number, "r+b", autoclose: false))
      @io.fcntl(F_SETFL, @io.fcntl(F_GETFL) & ~IO::NONBLOCK)
      @pid = Process.pid
      @socket = identity
      @have = "".b
    end

    def number
      @io.fileno
    end

    # False in a child that the user's code forked.
    def mine?
      @io && Process.pid == @pid
    end

    # A forked child must not use the channel, nor hold it open when the agent dies.
    def drop
      io, @io = @io, nil
      io&.close
    rescue IOError, SystemCallError
      nil
    end

    # A template's channel: libcloche-guest writes to it from now on, and forked children close it.
    def rest
      @io.autoclose = false
      @io = nil
    end

    # One frame as [JSON text, attachments], or nil at the end of the stream. Bytes stay buffered
    # when Thread#raise or a timeout interrupts the wait: the next reader goes on from there.
    # waiting: called with the blocking block, which it must call.
    def read(waiting = nil)
      size = 8
      while @have.bytesize < size || (size == 8 && @have.bytesize < (size = frame_size))
        return nil unless fill(size - @have.bytesize, waiting)
      end
      json_size = @have.unpack1("@4V")
      text = @have.byteslice(8, json_size).force_encoding(Encoding::UTF_8)
      attachments = @have.byteslice(8 + json_size, size - 8 - json_size)
      @have = @have.byteslice(size, @have.bytesize - size)
      [text, attachments]
    end

    # True if unprocessed bytes are buffered.
    def held?
      !@have.empty?
    end

    def input?
      held? || !IO.select([@io], nil, nil, 0).nil?
    end

    def send(text, attachments = [])
      size = attachments.sum(&:bytesize)
      head = [4 + text.bytesize + size, text.bytesize].pack("VV")
      pieces = text.bytesize + size <= SMALL ? [[head, text.b, *attachments].join("")] : [head, text, *attachments]
      Thread.handle_interrupt(Object => :never) { pieces.each { |piece| write(piece) } }
    end

    private

    def frame_size
      length, json_size = @have.unpack("VV")
      if length > FRAME_MAX || json_size > JSON_MAX || json_size + 4 > length
        raise BadFrame, "frame of #{length} bytes with #{json_size} of JSON"
      end
      length + 4
    end

    # Interrupts are allowed only while there is nothing to read.
    def fill(size, waiting)
      check
      waiting ? waiting.call(-> { IO.select([@io]) }) : IO.select([@io])
      Thread.handle_interrupt(Object => :never) { @have << unbroken { @io.sysread(size > SMALL ? [size, PIECE].min : SMALL) } }
    rescue EOFError, Errno::ECONNRESET
      nil
    end

    def write(piece)
      piece = piece.b
      until piece.empty?
        check
        done = unbroken { @io.syswrite(piece) }
        piece = piece.byteslice(done, piece.bytesize - done)
      end
    end

    # Thread#raise interrupts a system call even where its exception is deferred.
    def unbroken
      yield
    rescue Errno::EINTR
      retry
    end

    # User code may have closed the descriptor, and its number may have been reused.
    def check
      Process.exit!(1) unless @io && identity == @socket
    end

    def identity
      status = @io.stat
      [status.dev, status.ino]
    rescue IOError, SystemCallError
      nil
    end

    def move(io)
      NUMBERS.each do |number|
        moved = IO.for_fd(io.fcntl(F_DUPFD_CLOEXEC, number), "r+b")
        IO.for_fd(io.fileno).close
        return moved
      rescue SystemCallError
        next
      end
      io.close_on_exec = io.autoclose = true
      io
    end
  end
end
