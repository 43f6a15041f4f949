/** Reads the port of `npm start` and checks that it is free. */
import { once } from "node:events";
import { connect } from "node:net";
import { CommandError } from "./command.ts";

const highestPort = 65_535;
const triedPorts = 100;
/** wrangler listens on both addresses, and a browser may choose either for `localhost`. */
const hosts = ["127.0.0.1", "::1"] as const;

/** @throws CommandError unless the text is a port that is free on both addresses of `localhost` */
export async function readFreePort(text: string): Promise<number> {
  const port = readPort(text);
  if (await isFree(port)) return port;
  const other = await freePortAfter(port);
  const advice = other === null ? "" : `, or choose another port: --port ${other}`;
  throw new CommandError(`Port ${port} is in use. Stop the program that uses it${advice}`);
}

/** @throws CommandError unless the text is an integer from 1 to 65535 */
export function readPort(text: string): number {
  const port = /^[1-9]\d{0,4}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= highestPort) return port;
  throw new CommandError(`--port: expected a port from 1 to ${highestPort}, got "${text}"`);
}

/** The next free port, or null if the next 100 are taken. The search continues at 8787 after 65535. */
async function freePortAfter(port: number): Promise<number | null> {
  for (let step = 1; step <= triedPorts; step++) {
    const next = port + step;
    const candidate = next <= highestPort ? next : 8_786 + next - highestPort;
    // oxlint-disable-next-line no-await-in-loop -- the first free one is enough
    if (await isFree(candidate)) return candidate;
  }
  return null;
}

async function isFree(port: number): Promise<boolean> {
  const answers = await Promise.all(hosts.map((host) => isListening(host, port)));
  return !answers.includes(true);
}

/** Whether a program accepts connections at this address. */
async function isListening(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port });
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
