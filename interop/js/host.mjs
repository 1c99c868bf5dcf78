// Starts a real host, "parley serve", and stops it again.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const binary = process.env.PARLEY_BIN;
if (!binary) throw new Error('PARLEY_BIN must name the parley binary: run this suite with "go test ./interop/js"');

const ready = /^parley: (?<name>.+) at (?<url>\S+) \(JSON-RPC, REST\), grpc (?<grpc>\S+)$/;

/**
 * Starts a host with a built-in agent on free ports.
 *
 * @returns {Promise<{name: string, url: string, grpc: string, stop: () => Promise<void>}>} once it is ready; stop
 * rejects unless the host exits with 0.
 */
export async function startHost(agent, ...more) {
  const args = ['serve', '--listen', '127.0.0.1:0', '--grpc-listen', '127.0.0.1:0', '--agent', agent, '--store', 'memory:', ...more];
  const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  child.stderr.on('data', (chunk) => { log += chunk; });
  const exited = new Promise((resolve) => { child.once('close', (code, signal) => resolve(code ?? signal)); });
  const failed = new Promise((_, reject) => { child.once('error', reject); });

  const stop = async () => {
    child.kill('SIGTERM');
    const code = await exited;
    if (code !== 0) throw new Error(`parley serve ended with ${code}:\n${log}`);
  };
  const readReady = async () => {
    for await (const line of createInterface({ input: child.stdout })) {
      const match = ready.exec(line);
      if (!match) throw new Error(`parley serve printed ${JSON.stringify(line)} instead of its ready line`);
      child.stdout.resume();
      return { ...match.groups, stop };
    }
    throw new Error(`parley serve ended with ${await exited} before it was ready:\n${log}`);
  };
  try {
    return await Promise.race([readReady(), failed]);
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
}
