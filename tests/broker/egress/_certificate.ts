/**
 * A self-made certificate for `allowed.example`, by openssl.
 */

import { join } from "@std/path/join";

/** A certificate and its key in PEM. */
export interface Certificate {
  cert: string;
  key: string;
}

/** Makes one, valid for `names`. */
export async function makeCertificate(...names: string[]): Promise<Certificate> {
  const directory = await Deno.makeTempDir();
  try {
    const [cert, key] = [join(directory, "cert.pem"), join(directory, "key.pem")];
    const args = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    args.push("-subj", `/CN=${names[0]}`, "-addext", `subjectAltName=${names.map((name) => `DNS:${name}`).join(",")}`);
    // Webpki takes no certificate authority as a server's certificate.
    args.push("-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", cert);
    const { success, stderr } = await new Deno.Command("openssl", { args, stdout: "null", stderr: "piped" }).output();
    if (!success) throw new Error(`openssl: ${new TextDecoder().decode(stderr)}`);
    return { cert: await Deno.readTextFile(cert), key: await Deno.readTextFile(key) };
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}
