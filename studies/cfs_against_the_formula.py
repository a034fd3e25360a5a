"""Delays of the simulated CFS beside those of the closed form (run in this folder)."""
import numpy as np
from cfs_simulation import sim
from math import comb
def stat(n,S,load,be,lat=24.,mg=3.,wg=4.,cv2=0.3):
    lam=np.array([load/s*1000 for s in S]); S=np.array(S)
    # zero-variance service: delay = response - S exactly when cv2 tiny
    o,no,b=sim(3,n,len(S),lam,S,np.full(len(S),1e-6),be,100.,lat,mg,wg,0.5,0.)
    tot=load*len(S)
    used=tot+b; busy=min(1,used/n)
    own=load/n
    p=busy**n*max(busy-own,0)/busy
    c=(be+tot-load)/n
    r=[]
    for i in range(len(S)):
        d=o[i,100:no[i]]-S[i]-0.05
        pos=d>0.1
        r.append((round(float(pos.mean()),2),round(float(d[pos].mean()),2) if pos.any() else 0,[round(float(x),1) for x in np.quantile(d,[.5,.9,.95,.99])]))
    print(f'n={n} LC={tot:.2f} BE={be}->{b:.2f} busy={busy:.2f} formula p={p:.2f} c={c:.2f} mean3={3*c:.2f} lat*c/(1+c)/2={lat/2*c/(1+c):.2f} | sim',r)
for be in (4,8):
  for n in (6,8,10):
    for load in (.3,.6,.85,1.1):
        stat(n,(1.,1.,1.),load,be)
stat(6,(1.,2.8,.8),.85,4)
stat(7,(1.,2.8,.8),.85,4)
stat(8,(1.,2.8,.8),.85,4)
