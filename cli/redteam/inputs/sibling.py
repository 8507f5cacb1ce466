# A neighbour on the network, which reports when it was reached.
import socket, select
def listening(port):
    try:
        return [socket.create_server(("0.0.0.0", port))]
    except OSError:
        # What leads to the gateway and to the proxy is there already.
        return []
ports = listening(8088) + listening(3128) + listening(9999)
print("ready", flush=True)
ready = select.select(ports, [], [], 60)[0]
print("reached", flush=True)
